// A network that trains. This is the trainer's interface to the engine.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/device_gradient.h"
#include "common/element_update.h"
#include "common/sample_shape.h"
#include "common/status.h"
#include "engine/graph/precision.h"
#include "engine/runtime/factors.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

class GroupPart;

struct NetworkOptions {
  std::string backend = "onednn";          // or "cudnn", "reference"
  int device = 0;                          // cudnn: the GPU
  Precision precision = Precision::kFp32;  // onednn: fp32 or bf16; cudnn: any
  int threads = 1;                         // of one step
  uint64_t seed = 1;                       // with `worker`, keys the dropout masks
  uint32_t worker = 0;
  size_t memory = 0;  // bytes that it may take; 0: all that the backend's device has free
  // Chooses dense layers whose weight gradients leave as factors; null: none.
  ChooseFactors factors = nullptr;
  // cudnn: a file that keeps the fastest cuDNN engines for later processes; empty: each process
  // measures.
  std::string choices = {};
  // The folder of libpsgd_<backend>.so. Empty: the program's folder, then ../lib/psgd from there.
  std::string plugin_dir = {};
};

// A batch: pixels, batch x channels x height x width; or tokens, batch x length; or indices (in
// `tokens`) and values, batch x entries. The other spans are empty.
struct NetworkInput {
  NetworkInput(std::span<const float> pixels, std::span<const int32_t> tokens,
               std::span<const float> values = {})
      : pixels(pixels), tokens(tokens), values(values) {}
  template <std::convertible_to<std::span<const float>> Pixels>
  NetworkInput(const Pixels& pixels) : pixels(pixels) {}  // NOLINT: stands for its only content
  template <std::convertible_to<std::span<const int32_t>> Tokens>
  NetworkInput(const Tokens& tokens) : tokens(tokens) {}  // NOLINT

  std::span<const float> pixels;
  std::span<const int32_t> tokens;
  std::span<const float> values;
};

struct StepBatch {
  NetworkInput input;
  std::span<const int32_t> labels;
  // The batch was `next` of the previous step, or staged for that step if it had no `next`.
  bool staged = false;
  // batch x SampleShape::targets. A label then says only whether its sample counts: 0, or -1.
  std::span<const float> targets = {};
};

// What goes on beside a step.
struct BesideStep {
  // The batch of the next call: a device gets it while this step computes. The caller may change it
  // once TrainStep returns. Null: it is not known yet.
  const StepBatch* next = nullptr;
  // Called where the calling thread could only wait for a device, until it returns false. It should
  // take little time. May be null.
  std::function<bool()> meanwhile;
  // Called for each parameter that the step reads, before the first kernel that reads it: brings
  // the parameter's weights. Its error ends the step. Null: all weights are there. If set,
  // REQUIRES: Network::waits_by_parameter().
  std::function<absl::Status(int)> bring;
};

// One replica: it holds the weights and computes a gradient from a batch. Not thread-safe, but may
// move between threads. Create plans and allocates all memory.
class Network {
 public:
  // An error names the layer and the shapes that do not fit. RESOURCE_EXHAUSTED: the memory does
  // not suffice; the error names the largest tensors and a batch that fits.
  static absl::StatusOr<std::unique_ptr<Network>> Create(const ModelConfig& model,
                                                         const SampleShape& shape, int batch,
                                                         const NetworkOptions& options);
  ~Network();

  // Names, shapes, roles, initializers and decay flags, from the front of the network to its end.
  const ModelSpec& spec() const;
  int batch() const;

  // The weights, zero at first. The caller writes them in place.
  std::span<float> parameter(int index);
  // The gradient of the last TrainStep. For a STATISTIC: the value to add to the parameter.
  std::span<const float> gradient(int index) const;
  // The rows of gradient(index) if NetworkOptions::factors chose these weights, else 0. A row holds
  // a row of the layer's input, then a row of its output's gradient.
  int64_t factor_rows(int index) const;
  // By parameter: see engine/graph/hidden_matrices.h.
  const std::vector<bool>& hidden_matrices() const;
  // Makes networks on different devices a group. From then on the first network's gradients are the
  // sums over all networks, each times its share, and its statistics are the mean. Gradients of the
  // other networks reach only the first. An error in fp16, because networks repeat steps on their
  // own. REQUIRES: the parts, one a network, outlive the networks.
  static absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
      std::span<Network* const> networks);
  // Sets the share for later steps. REQUIRES: the network is in a group.
  void set_share(float share);

  // Whether gradients are made in a device's memory, not the host's.
  bool on_device() const;
  // The gradients of `kept` parameters stay on the device, and only `launched` hands them out;
  // gradient(i) does not hold them. Each TrainStep calls `launched` for them from the last to the
  // first, once the kernels that make them are launched and before any on_gradient. Their
  // on_gradient calls only keep the order. REQUIRES: on_device(), and no step was taken yet.
  void KeepOnDevice(std::vector<bool> kept,
                    std::function<absl::Status(int, const DeviceGradient&)> launched);

  // From the next step on, gradients stay on the device, where UpdateParameters uses them, with
  // `arrays` zeroed arrays for each parameter. `orthogonal`: hidden matrices may have the update
  // kLookAhead, which needs scratch memory. RESOURCE_EXHAUSTED: the device lacks room for all this.
  // REQUIRES: on_device(), no step was taken yet, and every TrainStep has a null on_gradient.
  absl::Status KeepStates(int arrays, bool orthogonal);
  // Moves the parameters by the gradients of the last TrainStep within the bounds, on the device.
  // `updates`: by parameter. Afterwards parameter(i) is old, until FetchParameters. REQUIRES:
  // KeepStates.
  absl::Status UpdateParameters(std::span<const ElementUpdate> updates,
                                const GradientBounds& bounds);
  absl::Status FetchParameters();
  // An array of parameter i.
  absl::Status ReadState(int array, int i, std::span<float> to);
  absl::Status WriteState(int array, int i, std::span<const float> from);

  // Makes the network renew its reordered copies of parameters. REQUIRES: called after parameters
  // are written, before the next step.
  void InvalidateParameters();

  // Allocates a second copy of the parameters, so that those of the next step can arrive while a
  // step computes: on the device and, if `on_host`, in next_parameter. RESOURCE_EXHAUSTED: the
  // device lacks room for this copy and as much again for codecs. REQUIRES: on_device().
  absl::Status MakeRoomAhead(bool on_host);
  void GiveUpRoomAhead();
  // Any one thread may write it while a step computes.
  std::span<float> next_parameter(int index);
  // Starts the copy of next parameters to the device, beside the kernels. `from`: this network or
  // another of the same model. Called during a step from the thread that wrote next_parameter;
  // waits until the step has taken the parameters staged before.
  absl::Status StageParameters(const Network& from);
  // Called between steps: the next step computes with the staged parameters, and next_parameter may
  // be written again.
  void TakeStagedParameters();

  struct Result {
    double loss_sum = 0;   // over the counted labels, in the order of the batch
    uint64_t correct = 0;  // counted labels whose logit is the largest; 0 with targets
    uint64_t counted = 0;  // labels other than -1: a sample, token or pixel has one
    // How often the step ran again with a smaller loss scale, because gradients overflowed fp16.
    int repeated = 0;
  };

  // Runs forward and backward on one batch: gradients of the mean loss over the counted labels.
  // - `step` keys the dropout masks.
  // - on_gradient(i) is called from this thread once gradient(i) is final, for every parameter,
  //   from last to first. May be null. In fp16 a gradient is final when all are known to be finite.
  //   A step that overflows runs again with half the loss scale.
  // - Tokens are below the vocabulary. A label is below `classes`, or -1: not counted. A network
  //   that labels pixels takes batch x height x width labels.
  absl::StatusOr<Result> TrainStep(const StepBatch& batch, uint64_t step,
                                   const std::function<void(int)>& on_gradient,
                                   const BesideStep& beside = {});
  absl::StatusOr<Result> TrainStep(const NetworkInput& input, std::span<const int32_t> labels,
                                   uint64_t step, const std::function<void(int)>& on_gradient) {
    return TrainStep({input, labels}, step, on_gradient);
  }
  // Whether TrainStep uses BesideStep.next; else it ignores that.
  bool stages() const;
  // Whether a step's own weights may come while it computes: kernels read them in the host's
  // memory.
  bool waits_by_parameter() const { return !on_device(); }
  // Forward only, in evaluation mode (running statistics, no dropout).
  absl::StatusOr<Result> Evaluate(const StepBatch& batch);
  absl::StatusOr<Result> Evaluate(const NetworkInput& input, std::span<const int32_t> labels) {
    return Evaluate({input, labels});
  }
  // The logits of the last Evaluate on samples with one label or with targets, batch x classes.
  // Empty for other samples.
  std::span<const float> logits() const;

  // A node of the training step: the least bytes that it must move and operations that it must do
  // (engine/ops/cost.h), and the seconds that its kernel takes. If the kernel computes several
  // nodes, `op` has their names, as "Sum+Relu".
  struct NodeTime {
    std::string name, op;
    double bytes = 0, flops = 0, seconds = 0;
  };
  // The least of `runs` for each node with a kernel, with the batch of the last step. Afterwards
  // the network is of no use. REQUIRES: a step was taken.
  absl::StatusOr<std::vector<NodeTime>> TimeNodes(int runs);

  // 1 except in fp16.
  float loss_scale() const;
  // OK if training steps are replayed as one recorded launch, as on a device from the second step
  // on. Otherwise an error says why not.
  const absl::Status& recorded() const;
  // Backend::note of the kernels of training steps.
  const std::string& note() const;

 private:
  struct Impl;
  explicit Network(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
