// Predicts the memory of a replica without allocating it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/status.h"
#include "engine/runtime/network.h"
#include "engine/runtime/planned_network.h"

namespace psgd {

// Bytes by kind, and what the backend says.
struct MemoryReport {
  size_t weights = 0;
  size_t gradients = 0;  // of the weights
  size_t batch = 0;      // input and labels; on a device also those of the next step
  // Activations, their gradients and scratch memory, of training or evaluation, whichever takes
  // more: as planned, and if no memory were reused.
  size_t step = 0;
  size_t step_without_reuse = 0;
  // Bytes alive at the fullest node of training. (The step takes more, as buffers leave gaps.)
  size_t fullest_activations = 0, fullest_gradients = 0, fullest_scratch = 0;
  // Training measures convolution algorithms, and the fastest may need other scratch memory.
  bool scratch_may_differ = false;
  size_t kept = 0;  // from step to step: weights in other layouts, constants
  // On a device, not in the total: the second copy of the weights of Network::MakeRoomAhead.
  size_t ahead = 0;
  std::string note;  // Backend::note of the kernels of training steps

  size_t total() const { return weights + gradients + batch + step + kept; }
};

// Whether a device with `available` free bytes has room for a second copy of the weights. Codecs
// may need as much later, for residuals.
inline bool HasRoomAhead(size_t ahead, size_t available) { return available / 2 >= ahead; }

MemoryReport ReportMemory(const PlannedNetwork& network);

// Plans the memory of Network::Create with the same arguments. Errors are those of Create.
absl::StatusOr<MemoryReport> PlanMemory(const ModelConfig& model, const SampleShape& shape,
                                        int batch, const NetworkOptions& options);

// Free bytes for each replica, on the device with the fewest. Replicas on one device share its free
// bytes equally. 0: unknown.
absl::StatusOr<size_t> AvailableToEach(const std::vector<NetworkOptions>& replicas);

// The largest batch whose plan takes at most `available` bytes; 0: no batch does.
absl::StatusOr<int> LargestBatch(const ModelConfig& model, const SampleShape& shape,
                                 const NetworkOptions& options, size_t available);

}  // namespace psgd
