// The state, beside the weights, of a program that runs as a worker, such as its optimizer and
// random numbers. Checkpoints hold it in parts, spread over the shards like slices, under ids that
// no slice has: kProgramState + the index of the part. Stored: do not change.
//   u64   bytes of the whole state     in the first part alone
//   u64   their XXH3-64                likewise
//   u8[]  a stretch of the state
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/bytes.h"

namespace psgd {

inline constexpr uint32_t kProgramState = 1u << 31;
inline constexpr size_t kProgramPartBytes = 1u << 20;
// Shards hold the states of all workers in memory while a checkpoint is taken.
inline constexpr size_t kMostProgramState = size_t{2} << 30;

inline bool IsProgramPart(uint32_t id) { return id >= kProgramState; }
// Whether a part may have this id and this size.
bool FitsProgramPart(uint32_t id, size_t bytes);
inline uint32_t ShardOfProgramPart(uint32_t id, uint32_t shards) {
  return (id - kProgramState) % shards;
}

// The parts share the memory of `state`, but for the first. REQUIRES: at most kMostProgramState.
std::vector<std::pair<uint32_t, Bytes>> SplitProgramState(const Bytes& state);
// From the parts among `saved`. Nothing: there is no state, or not all of one, as of a worker that
// ended while it saved its state.
std::optional<std::vector<std::byte>> JoinProgramState(const std::map<uint32_t, Bytes>& saved);

}  // namespace psgd
