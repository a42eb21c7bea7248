// A network that trains: what the trainer sees of the engine.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/device_gradient.h"
#include "common/status.h"
#include "engine/graph/input_shape.h"
#include "engine/graph/precision.h"
#include "engine/runtime/factors.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"

namespace psgd {

class GroupPart;

struct NetworkOptions {
  std::string backend = "onednn";          // or "cudnn", "reference"
  int device = 0;                          // of cudnn
  Precision precision = Precision::kFp32;  // onednn: fp32 or bf16; cudnn: any
  int threads = 1;                         // that one step may use
  uint64_t seed = 1;                       // with `worker`, keys the dropout masks
  uint32_t worker = 0;
  size_t memory = 0;  // bytes that it may take; 0: what the backend's device has left
  // Weights of dense layers whose gradients are to be handed out as their factors; null: none.
  ChooseFactors factors = nullptr;
  // cudnn: a file that says, and is told, which of cuDNN's engines are fastest; empty: each process
  // measures.
  std::string choices = {};
  // Where libpsgd_<backend>.so lies. Empty: beside the program, else in ../lib/psgd of an
  // installed one.
  std::string plugin_dir = {};
};

// A batch as the network takes it: pixels, batch x channels x height x width; or tokens, batch x
// length; or indices (as tokens) and values, batch x entries. The others are empty.
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
  // It was `next` of the step before.
  bool staged = false;
};

// One replica: the weights, and the means to compute a gradient from a batch. Not thread-safe, but
// may move between threads. All memory is planned and allocated by Create.
class Network {
 public:
  // An error names the layer and the shapes that do not fit; where memory does not suffice, it is
  // RESOURCE_EXHAUSTED, and names the largest tensors and what would fit.
  static absl::StatusOr<std::unique_ptr<Network>> Create(const ModelConfig& model,
                                                         const InputShape& shape, int batch,
                                                         const NetworkOptions& options);
  ~Network();

  // Names, shapes, roles, initialisers and decay flags, from the front of the network to its end.
  const ModelSpec& spec() const;
  int batch() const;

  // The weights, written in place by the caller. Zero until then.
  std::span<float> parameter(int index);
  // Of the last TrainStep. For a STATISTIC: what to add to the parameter.
  std::span<const float> gradient(int index) const;
  // 0; of weights that NetworkOptions::factors took, how many rows gradient(index) has: each is one
  // of the layer's input and behind it one of its output's gradient.
  int64_t factor_rows(int index) const;
  // Makes networks on different devices a group, the first of them its first: from then on its
  // gradients are the sums of those of all, each times its share, and statistics their mean. The
  // others' gradients leave them for it alone. An error where fp16 is computed in: replicas would
  // repeat steps on their own. The parts, in the networks' order, must outlive them.
  static absl::StatusOr<std::vector<std::unique_ptr<GroupPart>>> MakeGroup(
      std::span<Network* const> networks);
  // Of a network in a group, for the steps that follow.
  void set_share(float share);

  // Whether gradients are made elsewhere than in the host's memory.
  bool on_device() const;
  // From the first step on, the gradients of `kept` parameters leave the device only as `launched`
  // has it: gradient(i) is then not theirs. In each TrainStep it is called for each of them from
  // the last to the first, once what makes them was launched and before any call of on_gradient,
  // which then tells nothing of them but their turn. REQUIRES: on_device(), and no step was taken
  // yet.
  void KeepOnDevice(std::vector<bool> kept,
                    std::function<absl::Status(int, const DeviceGradient&)> launched);

  // REQUIRED after writing parameters, before the next step: reordered copies are renewed.
  void InvalidateParameters();

  // The parameters of the next step may come while one computes: into a second copy, there and,
  // where `on_host` is set, in next_parameter. RESOURCE_EXHAUSTED where the device lacks room for
  // it and as much again, which codecs may take later. REQUIRES: on_device().
  absl::Status MakeRoomAhead(bool on_host);
  void GiveUpRoomAhead();
  // May be written while a step computes, from any one thread.
  std::span<float> next_parameter(int index);
  // Starts their way to the device, beside the kernels: those of `from`, which may be this network
  // or another of the same model. From that thread, in a step: waits until the device is told of
  // the step.
  absl::Status StageParameters(const Network& from);
  // Between that step and the next, which computes with them: what was staged are the parameters,
  // and next_parameter may be written again.
  void TakeStagedParameters();

  struct Result {
    double loss_sum = 0;   // over the counted labels, summed in the order of the batch
    uint64_t correct = 0;  // counted labels whose logit is the largest
    uint64_t counted = 0;  // labels that are not -1: one a sample, or one a token
    // How often the step was run again with a smaller loss scale, since gradients left fp16.
    int repeated = 0;
  };

  // Forward and backward on one batch: gradients of the mean loss over the counted labels.
  // `step` keys the dropout masks. on_gradient(i) is called from this thread as soon as
  // gradient(i) is final, for every parameter, from the last to the first. May be null. In fp16
  // that is when all are known to be finite; a step that overflows is run again with half the loss
  // scale. Tokens are below the vocabulary; a label is below `classes`, or -1: not counted. A
  // network that labels pixels takes batch x height x width labels. `next`, where it is not null,
  // is the batch of the next call: a device gets it while this step computes. Its content may be
  // written again once this has returned. `meanwhile`: where kernels run on a device and this
  // thread could only wait for them, it is called instead, again and again until it returns false;
  // it should take little time.
  absl::StatusOr<Result> TrainStep(const StepBatch& batch, uint64_t step,
                                   const std::function<void(int)>& on_gradient,
                                   const StepBatch* next = nullptr,
                                   std::function<bool()> meanwhile = nullptr);
  absl::StatusOr<Result> TrainStep(const NetworkInput& input, std::span<const int32_t> labels,
                                   uint64_t step, const std::function<void(int)>& on_gradient) {
    return TrainStep({input, labels}, step, on_gradient);
  }
  // Whether it takes `next`; else that is left alone.
  bool stages() const;
  // Forward only, in evaluation mode (running statistics, no dropout).
  absl::StatusOr<Result> Evaluate(const NetworkInput& input, std::span<const int32_t> labels);
  // Of the last Evaluate on sparse vectors, batch x classes; empty for other samples.
  std::span<const float> logits() const;

  // Of fp16; 1 without.
  float loss_scale() const;
  // OK where training steps are replayed as one recorded launch, as they are on a device from the
  // second on; else why not.
  const absl::Status& recorded() const;

 private:
  struct Impl;
  explicit Network(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
