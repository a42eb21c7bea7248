// Updates that plain sgd made from payloads of factors. A reader that has the weights of before can
// repeat the updates bit for bit. A shard sends them in place of weights (PullPart::UPDATES).
//
// Wire:
//   0   u32    updates, at least 1, the oldest first; each:
//     0   fp32   learning rate
//     4   fp32   weight decay times the sum of the contributions' scales
//     8   u32    contributions, at least 1; each:
//       0   fp32   scale
//       4   u32    bytes of the payload; 0: the reader pushed it
//       8   a payload of factors.h for all slices, in the first form; or u64, the own push's clock
//
// An update is w -= rate * g, where g is the sum of scale * product over the contributions, from
// the first to the last, plus decay * w. Every operation is rounded to fp32.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "compression/codec.h"

namespace psgd {

struct FactorUpdate {
  struct Part {
    float scale = 1;
    Bytes payload;
    // The worker that pushed the payload, and when.
    uint32_t worker = 0;
    uint32_t incarnation = 0;
    uint64_t clock = 0;
  };
  uint64_t version = 0;  // of the weights after the update
  float rate = 0;
  float decay = 0;
  std::vector<Part> parts;
};

// The worker process that reads the updates.
struct UpdateReader {
  uint32_t worker = 0;
  uint32_t incarnation = 0;
};

// Length of the updates' payload for this reader.
size_t UpdateBytes(std::span<const FactorUpdate> updates, const UpdateReader& reader);

std::vector<std::byte> WriteFactorUpdates(std::span<const FactorUpdate> updates,
                                          const UpdateReader& reader);

// Returns the payload that the reader pushed at that clock; empty if it has none.
using OwnFactors = std::function<Bytes(uint64_t clock)>;

// Applies the updates. `weights[i]` are the weights of the slice `shapes[i]`; all slices are of one
// tensor. After an error in the payload, the weights are unchanged.
absl::Status ApplyFactorUpdates(const Codec& factors, ByteSpan payload, const OwnFactors& own,
                                std::span<const SliceShape> shapes,
                                std::span<const std::span<float>> weights);

}  // namespace psgd
