// The memory of a network's parameters and gradients: on the device and, if the device is not the
// host, also in pinned host memory, with the copies between the two. An optional second copy
// receives the next step's values while a step computes.
#pragma once

#include <functional>
#include <memory>
#include <semaphore>
#include <span>
#include <vector>

#include "common/status.h"
#include "engine/graph/graph.h"
#include "engine/runtime/backend.h"
#include "engine/runtime/network.h"

namespace psgd {

// Not thread-safe, except for Stage. REQUIRES: the backend outlives it.
class ParameterMemory {
 public:
  using OnGradient = std::function<void(int)>;
  using OnLaunched = std::function<absl::Status(int, const DeviceGradient&)>;
  // Bytes of gradients with one mark.
  static constexpr size_t kLeastTogether = 64 << 10, kMostAwaited = 4 << 20;

  static absl::StatusOr<std::unique_ptr<ParameterMemory>> Create(const Graph& graph,
                                                                 Backend* backend);

  // Host memory.
  std::span<float> value(int i) { return of_values_.Of(host_values_, i); }
  std::span<const float> gradient(int i) const { return of_gradients_.Of(host_gradients_, i); }
  // Device memory, which kernels see.
  void* device_value(int i) const { return values_ + of_values_.begins[i]; }
  void* device_gradient(int i) const { return gradients_ + of_gradients_.begins[i]; }

  // See Network::KeepOnDevice.
  void KeepOnDevice(std::vector<bool> kept, OnLaunched launched);

  // Allocates `arrays` arrays for each parameter, of zeros, on the device: an optimizer's state.
  // From the next step on, gradients stay on the device, for Update. `scratch`: floats for updates
  // that are made orthogonal. REQUIRES: kernels do not run on the host.
  absl::Status MakeStates(int arrays, size_t scratch);
  // Launches the updates of all parameters, by parameter. Afterwards `value` is old, until Fetch,
  // and the gradient of an update kLookAhead is overwritten.
  absl::Status Update(std::span<const ElementUpdate> updates, const GradientBounds& bounds,
                      uint64_t version);
  // Copies the device's values to the host's.
  absl::Status Fetch();
  absl::Status ReadState(int array, int i, std::span<float> to);
  absl::Status WriteState(int array, int i, std::span<const float> from);

  // Kernels launched later see the staged values, if any, or the values written since the last
  // call.
  absl::Status Upload(uint64_t version);

  // Allocates the second copy: on the device and, if `on_host`, in next_value.
  // REQUIRES: kernels do not run on the host.
  absl::Status MakeRoomAhead(bool on_host);
  void GiveUpRoomAhead();
  // Where to write the next values, while host and kernels use the present ones.
  std::span<float> next_value(int i) { return of_values_.Of(next_values_, i); }
  const float* next_values() const { return next_values_; }
  // Copies next values, laid out as the present ones, to the device beside the kernels. Waits until
  // Upload has taken the values staged before. Any thread may call it during a step.
  absl::Status Stage(const float* host);
  // Called between steps, after Stage: the next Upload shows the staged values to kernels. Swaps
  // value's and next_value's host memory.
  void TakeStaged(uint64_t version);

  // Called once the kernels that make gradient i are launched. `done` may be null. done(i) is
  // called when the host can read the gradient: here if kernels run on the host, else in Finish.
  // Gradients that stay on the device share a mark with those launched just before them, so that
  // they leave together. A group is as large as all groups before it, between these bounds, so the
  // first gradients leave soon. REQUIRES: each run launches all, from the last to the first.
  absl::Status Launched(int i, const OnGradient& done);
  // Lets those launched so far leave without the next ones.
  absl::Status MarkLaunched();
  // Calls `meanwhile` until all gradients are made or it returns false.
  void WorkMeanwhile(std::function<bool()>* meanwhile);
  // Hands over the gradients that stay on the device, then waits for all other launched or replayed
  // gradients, from the last parameter to the first. Null `done`: hands over nothing. Before each
  // wait it calls `meanwhile`, as above.
  absl::Status Finish(const OnGradient& done, std::function<bool()>* meanwhile = nullptr);

 private:
  // Where the values or gradients of each parameter lie, in elements. (Gradients as factors differ
  // in length from the values.)
  struct Pieces {
    void Add(size_t count);
    std::span<float> Of(float* base, int i) const { return {base + begins[i], counts[i]}; }

    std::vector<size_t> begins, counts;
    size_t end = 0;
  };

  explicit ParameterMemory(Backend* backend) : backend_(backend) {}
  // Calls `meanwhile` until gradient i is made and copied, or `meanwhile` returns false.
  void WorkUntilMade(size_t i, std::function<bool()>* meanwhile);

  Backend* const backend_;
  Pieces of_values_, of_gradients_;
  std::unique_ptr<DeviceMemory> device_memory_, host_memory_;
  float *values_ = nullptr, *gradients_ = nullptr;
  float *host_values_ = nullptr, *host_gradients_ = nullptr;
  uint64_t uploaded_ = 0;
  std::unique_ptr<DeviceMemory> state_memory_;
  std::vector<float*> states_;  // by array; laid out as the values
  float* scratch_ = nullptr;
  // The second copy.
  std::unique_ptr<DeviceMemory> next_memory_;
  float* next_values_ = nullptr;
  std::unique_ptr<Feed> feed_;
  bool staged_ = false;                        // the next Upload takes the staged values
  std::binary_semaphore may_stage_{1};         // the last staged values were taken
  std::vector<std::unique_ptr<Copy>> copies_;  // by parameter: its last copy
  std::vector<std::shared_ptr<Mark>> marks_;   // by parameter: the mark if it stays on the device
  std::vector<bool> kept_;
  OnLaunched launched_;
  // Gradients of this run that stay on the device: those after the last mark, and the bytes of the
  // others.
  std::vector<int> unmarked_;
  size_t unmarked_bytes_ = 0, marked_bytes_ = 0;
};

}  // namespace psgd
