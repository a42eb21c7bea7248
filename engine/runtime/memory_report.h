// What memory a replica would take, without taking it.
#pragma once

#include <cstddef>
#include <vector>

#include "common/status.h"
#include "engine/runtime/network.h"
#include "engine/runtime/planned_network.h"

namespace psgd {

// Bytes by kind.
struct MemoryReport {
  size_t weights = 0;
  size_t gradients = 0;  // of the weights
  size_t batch = 0;      // input and labels, of a device also those of the next step
  // Activations, their gradients and scratch memory: of training or evaluation, whichever takes
  // more, in the places that the plan gives them; and what they would take side by side.
  size_t step = 0;
  size_t step_without_reuse = 0;
  // Of training, where the most is alive at once: what is there. (Buffers of several sizes leave
  // gaps, so that the step takes more.)
  size_t fullest_activations = 0, fullest_gradients = 0, fullest_scratch = 0;
  // Of convolutions training measures which algorithm is fastest; it may want other scratch memory.
  bool scratch_may_differ = false;
  size_t kept = 0;  // from step to step: weights in other layouts, constants
  // Beside the total, of a device: a second copy of the weights, Network::MakeRoomAhead.
  size_t ahead = 0;

  size_t total() const { return weights + gradients + batch + step + kept; }
};

// Whether a device that has so much left once the network is made has room for a second copy of its
// weights. Codecs, which it has residuals of, may take as much later.
inline bool HasRoomAhead(size_t ahead, size_t available) { return available / 2 >= ahead; }

MemoryReport ReportMemory(const PlannedNetwork& network);

// Plans what Network::Create with the same arguments would allocate. Errors are its errors.
absl::StatusOr<MemoryReport> PlanMemory(const ModelConfig& model, const InputShape& shape,
                                        int batch, const NetworkOptions& options);

// Bytes that each of these replicas finds free, where as many as share a device share what is free
// there; of the device that leaves least. 0 where nothing tells.
absl::StatusOr<size_t> AvailableToEach(const std::vector<NetworkOptions>& replicas);

// The largest batch whose plan takes no more than `available` bytes; 0 where one sample is too
// much.
absl::StatusOr<int> LargestBatch(const ModelConfig& model, const InputShape& shape,
                                 const NetworkOptions& options, size_t available);

}  // namespace psgd
