// How weights leave a shard (compression.pull): whole, or only what a worker lacks.
//
//   none, fp16, bf16, int8   The whole slice, plain or through a codec; nothing of a slice that has
//                   not changed since the worker's last pull. Made once per version for all
//                   workers. With int8, small tensors (compression.dense_below) stay plain.
//   delta           The present values of the elements that changed since the worker's last pull.
//                   If they changed by factors: the updates since then, without the factors that
//                   the worker pushed; it makes the updates itself. Exact. Made once for all
//                   workers that hold the same version.
//   delta {codec}   The difference to the weights that the worker was sent, through a lossy codec.
//                   What the codec leaves out stays in the next difference: error feedback on the
//                   server. Needs a copy of the weights for each worker. Workers with equal
//                   requests get equal answers. A worker that asks again before its next step, as
//                   for an evaluation, gets nothing new. So with synchronous steps it does not
//                   matter which worker evaluates.
//
// A mark says which weights a worker holds: the mark that came with the weights that it installed
// last, or 0. A difference applies to these weights only. So a worker with an unexpected mark,
// because a reply was lost, gets the whole slice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/bytes.h"
#include "compression/codec.h"
#include "compression/kernels.h"
#include "compression/lossless.h"
#include "compression/low_rank/factor_updates.h"
#include "proto/config.pb.h"
#include "proto/data.pb.h"
#include "server/shard/slice_state.h"

namespace psgd {

// The weights of one slice that a worker was sent. Only delta {codec} uses them.
struct SentWeights {
  uint64_t mark = 0;                // 0: there are no weights that a difference could apply to
  uint64_t version = 0, clock = 0;  // the slice's version and the worker's clock
  std::vector<float> values;
  std::unique_ptr<Encoder> encoder;
};

// Not thread-safe: each shard has its own.
class WeightsEncoder {
 public:
  // `starts`: starts of the server, including this start. Marks of earlier starts are never reused.
  explicit WeightsEncoder(const Config& config, uint32_t starts = 1);
  void BeginLife(uint32_t starts) { marks_ = life_ = uint64_t{starts} << kVersionBits; }
  // The mark of the slice's present version. A worker with a mark of an earlier life gets the whole
  // slice: the disk may have lost steps, and then the same version stands for other weights.
  uint64_t MarkOf(const SliceState& slice) const { return life_ + slice.version + 1; }
  // `starts` of the present life.
  uint32_t life() const { return static_cast<uint32_t>(life_ >> kVersionBits); }

  // Returns the payload for a worker at `clock`, and fills in `part` except its slice. `mark`: the
  // worker's mark.
  Bytes Encode(SliceState& slice, uint64_t clock, uint64_t mark, SentWeights* sent, PullPart* part);
  // The packed form of a payload from Encode, if the lossless stage makes it shorter. 0 planes: it
  // does not.
  PackedPayload Pack(SliceState& slice, const Bytes& payload, PullPart::Form form);
  // Replaces Encode for all slices that the shard has of a tensor: the updates since the weights
  // that the worker holds. Nullopt: the updates are unknown, or no shorter. REQUIRES: the worker
  // holds the same mark of all slices.
  std::optional<Bytes> EncodeUpdates(std::span<const SliceState> tensor, uint64_t mark,
                                     const UpdateReader& reader) const;

 private:
  static constexpr int kVersionBits = 40;  // of a mark; the others say its life

  // The version that the mark names; nullopt: no mark of this life.
  std::optional<uint64_t> VersionOf(uint64_t mark) const;
  bool IsSmall(const SliceState& slice) const;
  Bytes NoChange(const SliceState& slice, PullPart::Form form, PullPart* part) const;
  Bytes Whole(SliceState& slice, uint64_t mark, PullPart* part);
  Bytes Changes(SliceState& slice, uint64_t mark, PullPart* part);
  Bytes Difference(SliceState& slice, uint64_t clock, uint64_t mark, SentWeights* sent,
                   PullPart* part);

  const uint64_t seed_;
  const uint64_t dense_below_;  // bytes of a tensor
  const CodecKernels& kernels_;
  bool changes_ = false;
  std::unique_ptr<Codec> difference_;  // of delta {codec}
  std::unique_ptr<Codec> whole_codec_;
  std::unique_ptr<Encoder> whole_;        // null: weights travel without a codec
  std::unique_ptr<Packer> packer_;        // null: nothing is packed
  uint64_t life_ = 0;                     // all marks are above it
  uint64_t marks_ = 0;                    // the last mark given out with a difference
  std::vector<float> values_, left_out_;  // scratch
};

}  // namespace psgd
