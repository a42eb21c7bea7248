// A shard's contents, as checkpoints and images keep them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "proto/checkpoint.pb.h"

namespace psgd {

// The name of the state that is the moving average of the weights. Persisted: do not change.
inline constexpr char kAverageState[] = "average";

struct SliceSnapshot {
  uint32_t id = 0;
  SliceSpec spec;
  std::string parameter;  // name
  uint64_t version = 0;
  uint64_t steps = 0;                                 // updates by the optimizer
  Bytes weights;                                      // fp32
  std::vector<std::pair<std::string, Bytes>> states;  // by name, each as long as the weights
};

// One shard's part of a checkpoint.
struct ShardSnapshot {
  std::vector<SliceSnapshot> slices;
  // Residuals: worker -> (slice id, fp32 values), for the slices that have one. As long as the
  // weights, or a multiple if encoders remember more. With the ids of common/program_state.h: parts
  // of what the worker's program keeps.
  std::map<uint32_t, std::vector<std::pair<uint32_t, Bytes>>> residuals;
  // Likewise the weights that a worker was sent. Only in a journal's images, for delay
  // compensation.
  std::map<uint32_t, std::vector<std::pair<uint32_t, Bytes>>> shown;
};

}  // namespace psgd
