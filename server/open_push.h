// From the payloads of a push to readers of the updates in it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "compression/codec.h"
#include "compression/factor_updates.h"
#include "net/message.h"
#include "server/slice_state.h"

namespace psgd {

struct OpenedPart {
  std::unique_ptr<PayloadReader> reader;
  // With the payload where it holds the factors of all that this shard has of their tensor.
  FactorUpdate::Part factors;
};

// How many payloads the parts are for.
size_t PayloadsOf(const Push& push);

// The first of the slices from `local` on that is of another tensor, or their number.
size_t EndOfTensor(std::span<const SliceState> slices, size_t local);

// Of a message's payloads together, when they are unpacked: as much as a message may have otherwise.
inline constexpr size_t kMostUnpacked = 64u << 20;

// Checks every byte of a message with a push; one for each part. Payloads that came packed are replaced
// by what they are, for good. REQUIRES: PayloadsOf says how many payloads there are; every part names a
// slice of the shard. `local`: indices in `slices`, by slice id.
absl::StatusOr<std::vector<OpenedPart>> OpenPush(const CodecTable& codecs,
                                                 const std::vector<SliceState>& slices,
                                                 const std::vector<int64_t>& local,
                                                 Message* message);

}  // namespace psgd
