// Updates that plain sgd made from payloads of factors, so that whoever has the weights of before
// can make them, too, bit for bit: what a shard sends in place of weights (PullPart::UPDATES).
//
// Wire:
//   0   u32    updates, at least 1, the oldest first; each:
//     0   fp32   learning rate
//     4   fp32   weight decay, times the contributions' scales
//     8   u32    contributions, at least 1; each:
//       0   fp32   scale
//       4   u32    bytes of the payload; 0: it is the reader's own push
//       8   a payload of factors.h for all slices, the first form; or u64, the own push's clock
//
// An update is w -= rate * g, where g is the sum of scale * product over the contributions, from
// the first to the last, and then of decay * w; every operation is rounded to fp32.
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
    // Who pushed it, and when.
    uint32_t worker = 0;
    uint32_t incarnation = 0;
    uint64_t clock = 0;
  };
  uint64_t version = 0;  // of the weights, once it was made
  float rate = 0;
  float decay = 0;
  std::vector<Part> parts;
};

// Of a worker's process.
struct UpdateReader {
  uint32_t worker = 0;
  uint32_t incarnation = 0;
};

// Length of the payload for this reader.
size_t UpdateBytes(std::span<const FactorUpdate> updates, const UpdateReader& reader);

std::vector<std::byte> WriteFactorUpdates(std::span<const FactorUpdate> updates,
                                          const UpdateReader& reader);

// The payload that the reader itself pushed at that clock; empty: it has none.
using OwnFactors = std::function<Bytes(uint64_t clock)>;

// Makes them: `weights[i]` are those of the slice of `shapes[i]`, all of one tensor. After an
// error, which is that of the payload, the weights are as they were.
absl::Status ApplyFactorUpdates(const Codec& factors, ByteSpan payload, const OwnFactors& own,
                                std::span<const SliceShape> shapes,
                                std::span<const std::span<float>> weights);

}  // namespace psgd
