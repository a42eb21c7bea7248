// How weights leave a shard (compression.pull): whole, or as what a worker does not have yet.
//
//   none, fp16,     the slice, as it is or in a codec; made once a version for all workers. With
//   int8 bf16, int8      small tensors (compression.dense_below) travel as they are delta the
//   present values of the elements that changed since the worker's last pull, or,
//                   where they came as factors, the updates since then, for the worker to make
//                   them, too, but for the factors that it pushed itself. Exact. What changed is
//                   made once for all workers that hold the same version.
//   delta {codec}   the difference to what the worker was sent, through a lossy codec. What the
//   codec
//                   leaves out stays in the difference: error feedback on the server. Takes a copy
//                   of the weights for each worker. Workers that ask alike get alike; who asks
//                   again before its next step, as the one that evaluates does, gets nothing more,
//                   so that with synchronous steps it does not matter which one that is.
//
// A mark says what a worker holds: the one that came with what it installed last, or 0. A
// difference applies to that state alone, so a worker whose mark is not the expected one, since a
// reply was lost, gets the slice whole.
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

// What a worker was sent of one slice; used by delta {codec} alone.
struct SentWeights {
  uint64_t mark = 0;                // 0: nothing that a difference could apply to
  uint64_t version = 0, clock = 0;  // of the slice, and of the worker that asked
  std::vector<float> values;
  std::unique_ptr<Encoder> encoder;
};

// Not thread-safe: one a shard.
class WeightsEncoder {
 public:
  // `starts`: of the server, this one included. Marks of earlier ones are given out no more.
  explicit WeightsEncoder(const Config& config, uint32_t starts = 1);
  void BeginLife(uint32_t starts) { marks_ = uint64_t{starts} << 40; }

  // The payload, and everything but the slice in `part`, for a worker at `clock`. `mark`: what it
  // says it holds.
  Bytes Encode(SliceState& slice, uint64_t clock, uint64_t mark, SentWeights* sent, PullPart* part);
  // Behind that: what travels in place of such a payload, where the lossless stage makes it
  // shorter; 0 planes: nothing.
  PackedPayload Pack(SliceState& slice, const Bytes& payload, PullPart::Form form);
  // In place of Encode, for all that the shard has of a tensor: the updates that were made since
  // the worker got what it holds. Nothing where they are not known, or are no shorter. REQUIRES:
  // the slices have the same mark.
  std::optional<Bytes> EncodeUpdates(std::span<const SliceState> tensor, uint64_t mark,
                                     const UpdateReader& reader) const;

 private:
  bool IsSmall(const SliceState& slice) const;
  Bytes Whole(SliceState& slice, PullPart* part);
  Bytes Changes(SliceState& slice, uint64_t mark, PullPart* part);
  Bytes Difference(SliceState& slice, uint64_t clock, uint64_t mark, SentWeights* sent,
                   PullPart* part);

  const uint64_t seed_;
  const uint64_t dense_below_;  // bytes of a tensor
  const CodecKernels& kernels_;
  bool changes_ = false;
  std::unique_ptr<Codec> difference_;  // of delta {codec}
  std::unique_ptr<Codec> whole_codec_;
  std::unique_ptr<Encoder> whole_;        // null: weights travel as they are
  std::unique_ptr<Packer> packer_;        // null: nothing is packed
  uint64_t marks_;                        // given out with differences
  std::vector<float> values_, left_out_;  // scratch
};

}  // namespace psgd
