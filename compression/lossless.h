// The lossless stage behind every codec (compression.lossless): a payload is packed with zstd where
// that makes it shorter by enough. Bytes of equal place in its values go first into a plane of
// their own: of fp32 values the signs and exponents are few, and the rest hardly repeats itself.
//
// Wire: one zstd frame, which says the size of its content, needs no dictionary and has nothing
// behind it. Its content is the payload in p planes, 1, 2 or 4 (`zstd` of the part says it): its
// bytes 0, p, 2p, ..., then 1, p+1, 2p+1, ..., as far as there are whole groups of p, then the
// bytes that are left.
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

// What travels in place of a payload.
struct PackedPayload {
  uint32_t planes = 0;  // 0: nothing does
  Bytes frame = {};
};

// Whether packing the payloads of one slice pays, and in how many planes: found out with the first
// of every kRound, all of them tried, and gone by for the others; sooner where payloads became much
// longer or shorter.
class PackingHabit {
 private:
  friend class Packer;
  static constexpr uint32_t kRound = 64;
  static constexpr uint32_t kSoonest = 8;  // payloads between two trials, whatever their lengths

  bool GoesOn(size_t bytes) const {
    const size_t by = bytes > tried_bytes_ ? bytes - tried_bytes_ : tried_bytes_ - bytes;
    return left_ > 0 && (by <= tried_bytes_ / 8 || left_ > kRound - kSoonest);
  }

  uint32_t planes_ = 0;  // 0: it does not
  uint32_t left_ = 0;    // payloads of this round
  size_t tried_bytes_ = 0;
};

// Not thread-safe.
class Packer {
 public:
  // Null where nothing is packed.
  static std::unique_ptr<Packer> Make(const LosslessConfig& config);
  ~Packer();

  PackedPayload Pack(ByteSpan payload, PackingHabit* habit);
  // In so many planes, whatever it was before.
  PackedPayload PackIn(uint32_t planes, ByteSpan payload);

 private:
  explicit Packer(int level);

  ZSTD_CCtx_s* const context_;
  // Kept only to spare allocations.
  std::vector<std::byte> planes_, frame_;
};

// The payload of what came; with 0 planes that itself. `most`: it has no more bytes. An error says
// what is wrong; no more than `most` is allocated, whatever the frame says.
absl::StatusOr<Bytes> Unpack(const Bytes& came, uint32_t planes, size_t most);

}  // namespace psgd
