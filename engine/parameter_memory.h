// Where the values and gradients of a network's parameters lie: once on a device that is the host,
// else there and in pinned memory of the host, with the copies between the two.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "engine/backend.h"
#include "engine/graph.h"
#include "engine/network.h"

namespace psgd {

// Not thread-safe. The backend outlives it.
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

  // Brings values that were written since the last call to the device.
  absl::Status Upload(uint64_t version);
  // The kernels that make gradient i have been launched. `done` may be null; it is called with i once
  // the host can read the gradient: at once, or by Finish.
  absl::Status Launched(int i, const OnGradient& done);
  // Hands over the gradients that stay, then waits for every other one that was launched, or that a
  // replay launched again, from the last parameter to the first. REQUIRES: that is the order of the
  // launches. Without `done` nothing is handed over.
  absl::Status Finish(const OnGradient& done);

 private:
  // Where those of each parameter lie, in elements. (Gradients may be handed out as factors, so they
  // need not be as long as the values.)
  struct Pieces {
    void Add(size_t count);
    std::span<float> Of(float* base, int i) const { return {base + begins[i], counts[i]}; }

    std::vector<size_t> begins, counts;
    size_t end = 0;
  };

  explicit ParameterMemory(Backend* backend) : backend_(backend) {}

  Backend* const backend_;
  Pieces of_values_, of_gradients_;
  std::unique_ptr<DeviceMemory> device_memory_, host_memory_;
  float *values_ = nullptr, *gradients_ = nullptr;
  float *host_values_ = nullptr, *host_gradients_ = nullptr;
  uint64_t uploaded_ = 0;
  std::vector<std::unique_ptr<Copy>> copies_;  // by parameter, the latest
  std::vector<std::unique_ptr<Mark>> marks_;   // of those that stay, likewise
  std::vector<bool> kept_;
  OnLaunched launched_;
};

}  // namespace psgd
