// Where the values and gradients of a network's parameters lie: once on a device that is the host,
// else there and in pinned memory of the host, with the copies between the two. A second copy of
// the values, where there is one, takes the next step's while a step computes.
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

// Not thread-safe, but for Stage. The backend outlives it.
class ParameterMemory {
 public:
  using OnGradient = std::function<void(int)>;
  using OnLaunched = std::function<absl::Status(int, const DeviceGradient&)>;

  static absl::StatusOr<std::unique_ptr<ParameterMemory>> Create(const Graph& graph,
                                                                 Backend* backend);

  // Host memory.
  std::span<float> value(int i) { return of_values_.Of(host_values_, i); }
  std::span<const float> gradient(int i) const { return of_gradients_.Of(host_gradients_, i); }
  // What kernels see.
  void* device_value(int i) const { return values_ + of_values_.begins[i]; }
  void* device_gradient(int i) const { return gradients_ + of_gradients_.begins[i]; }

  // See Network::KeepOnDevice.
  void KeepOnDevice(std::vector<bool> kept, OnLaunched launched);

  // Kernels that are launched from now on see the values that were staged, if any, and then those
  // that were written since the last call.
  absl::Status Upload(uint64_t version);

  // Takes the memory for the next values: on the device, and where `on_host` is set next_value's.
  // REQUIRES: kernels do not run on the host.
  absl::Status MakeRoomAhead(bool on_host);
  void GiveUpRoomAhead();
  bool has_room_ahead() const { return feed_ != nullptr; }
  // For the next values, while the host and kernels go on with these.
  std::span<float> next_value(int i) { return of_values_.Of(next_values_, i); }
  const float* next_values() const { return next_values_; }
  // Brings next values, laid out as these are, to the device beside the kernels. From any thread,
  // while a step is under way: waits until that has begun.
  absl::Status Stage(const float* host);
  // Between steps, once staged: the next Upload makes them those that kernels see. Where
  // next_value's memory is, it and value's change places.
  void TakeStaged(uint64_t version);

  // The kernels that make gradient i have been launched. `done` may be null; it is called with i
  // once the host can read the gradient: at once, or by Finish.
  absl::Status Launched(int i, const OnGradient& done);
  // Calls `meanwhile` while every gradient is not made yet, until it returns false.
  void WorkMeanwhile(std::function<bool()>* meanwhile);
  // Hands over the gradients that stay, then waits for every other one that was launched, or that a
  // replay launched again, from the last parameter to the first. REQUIRES: that is the order of the
  // launches. Without `done` nothing is handed over. Before each wait it calls `meanwhile`, as
  // above.
  absl::Status Finish(const OnGradient& done, std::function<bool()>* meanwhile = nullptr);

 private:
  // Where those of each parameter lie, in elements. (Gradients may be handed out as factors, so
  // they need not be as long as the values.)
  struct Pieces {
    void Add(size_t count);
    std::span<float> Of(float* base, int i) const { return {base + begins[i], counts[i]}; }

    std::vector<size_t> begins, counts;
    size_t end = 0;
  };

  explicit ParameterMemory(Backend* backend) : backend_(backend) {}
  // Until the kernels that make gradient i, and its copy, are done.
  void WorkUntilMade(size_t i, std::function<bool()>* meanwhile);

  Backend* const backend_;
  Pieces of_values_, of_gradients_;
  std::unique_ptr<DeviceMemory> device_memory_, host_memory_;
  float *values_ = nullptr, *gradients_ = nullptr;
  float *host_values_ = nullptr, *host_gradients_ = nullptr;
  uint64_t uploaded_ = 0;
  // Of what comes ahead.
  std::unique_ptr<DeviceMemory> next_memory_;
  float* next_values_ = nullptr;
  std::unique_ptr<Feed> feed_;
  bool staged_ = false;                        // and to be taken by the next Upload
  std::binary_semaphore may_stage_{1};         // what was staged before has been taken
  std::vector<std::unique_ptr<Copy>> copies_;  // by parameter, the latest
  std::vector<std::unique_ptr<Mark>> marks_;   // of those that stay, likewise
  std::vector<bool> kept_;
  OnLaunched launched_;
};

}  // namespace psgd
