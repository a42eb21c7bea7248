// The lossless stage behind every codec (compression.lossless): zstd packs a payload if that saves
// enough. Bytes of equal place in the payload's values first go into one plane: fp32 values have
// few different signs and exponents, and their other bytes hardly repeat.
//
// Wire: one zstd frame. It states the size of its content, needs no dictionary and has nothing
// after it. Its content is the payload in p planes, 1, 2 or 4 (p is the part's `zstd`): the
// payload's bytes 0, p, 2p, ..., then 1, p+1, 2p+1, ..., over whole groups of p, then the remaining
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/bytes.h"
#include "common/status.h"
#include "proto/codec_config.pb.h"

struct ZSTD_CCtx_s;

namespace psgd {

// A payload as the lossless stage sends it.
struct PackedPayload {
  uint32_t planes = 0;  // 0: the payload is not packed
  Bytes frame = {};
};

// Remembers whether packing the payloads of one slice pays, and in how many planes. The first of
// every kRound payloads tries all plane counts; the others use its result. A new trial comes sooner
// if payloads became much longer or shorter.
class PackingHabit {
 private:
  friend class Packer;
  static constexpr uint32_t kRound = 64;
  static constexpr uint32_t kSoonest = 8;  // least payloads between two trials

  bool GoesOn(size_t bytes) const {
    const size_t by = bytes > tried_bytes_ ? bytes - tried_bytes_ : tried_bytes_ - bytes;
    return left_ > 0 && (by <= tried_bytes_ / 8 || left_ > kRound - kSoonest);
  }

  uint32_t planes_ = 0;  // 0: packing does not pay
  uint32_t left_ = 0;    // payloads left in this round
  size_t tried_bytes_ = 0;
};

// Packs payloads. Not thread-safe.
class Packer {
 public:
  // Returns null if the config packs nothing.
  static std::unique_ptr<Packer> Make(const LosslessConfig& config);
  ~Packer();

  PackedPayload Pack(ByteSpan payload, PackingHabit* habit);
  // Packs in `planes` planes, without a habit.
  PackedPayload PackIn(uint32_t planes, ByteSpan payload);

 private:
  explicit Packer(int level);

  ZSTD_CCtx_s* const context_;
  // Buffers, kept only to spare allocations.
  std::vector<std::byte> planes_, frame_;
};

// Returns the payload that `came` holds; with 0 planes, `came` itself. `most`: the longest payload.
// An error says what is wrong. Unpack allocates at most `most` bytes, whatever the frame says.
absl::StatusOr<Bytes> Unpack(const Bytes& came, uint32_t planes, size_t most);

}  // namespace psgd
