// The slices of a worker's latest pull: which it asks for, which have come, and what the worker has
// installed before.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "proto/data.pb.h"
#include "proto/model.pb.h"
#include "worker/fragments.h"

namespace psgd {

// One slice's weights as they came, not yet decoded.
struct PulledSlice {
  CodecId codec = CODEC_NONE;
  uint64_t version = 0;
  PullPart::Form form = PullPart::WHOLE;
  uint64_t mark = 0;
  Bytes payload;
  uint32_t planes = 0;  // of Unpack
  uint32_t life = 0;    // of the shard that sent it
};

// Not thread-safe.
class PulledSlices {
 public:
  PulledSlices(const Placement& placement, uint32_t fragments);

  // Begins a pull of the weights that a worker needs after `clock` steps. Without `all` it asks
  // only for the slices that the exchange of `clock` carries, except in the first pull. `aside`: as
  // SessionCore::pulls_aside.
  void Begin(uint64_t clock, bool all, bool aside);

  const Fragments& fragments() const { return fragments_; }
  uint64_t clock() const { return clock_; }
  bool aside() const { return aside_; }
  bool Asked(uint32_t slice) const { return asked_[slice]; }
  // How many slices of the shard have not come.
  size_t left(uint32_t shard) const { return left_[shard]; }
  // Writes these slices and what the worker has of them into the request.
  void AddWanted(uint32_t shard, Pull* pull) const;

  // Takes a slice that `shard` sent. Ignores it if the pull does not wait for it. Returns false if
  // it is older than the slice that was installed before.
  bool Add(uint32_t shard, const PullPart& part, Bytes payload, uint32_t life);

  // See the functions of SessionCore.
  std::vector<PulledSlice> TakeAll();
  std::optional<std::pair<uint32_t, PulledSlice>> TakeNext();
  const std::vector<PulledSlice>& slices() const { return slices_; }

  // The slice that was installed last, without its payload: what pushes are computed from.
  const PulledSlice& installed(uint32_t slice) const { return installed_[slice]; }

 private:
  const Fragments fragments_;
  std::vector<uint32_t> shard_of_;  // by slice
  std::vector<PulledSlice> installed_;
  bool installed_all_ = false;  // every slice was installed once

  uint64_t clock_ = 0;
  bool aside_ = false;
  std::vector<bool> asked_;    // by slice
  std::vector<bool> to_come_;  // by slice: asked for, and it has not come
  std::vector<size_t> left_;   // by shard
  std::vector<PulledSlice> slices_;
  std::deque<uint32_t> arrived_;  // for TakeNext
};

}  // namespace psgd
