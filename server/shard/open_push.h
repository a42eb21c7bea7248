// From the payloads of a push to readers of the updates in it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "compression/codec.h"
#include "compression/low_rank/factor_updates.h"
#include "net/message.h"
#include "server/shard/slice_state.h"

namespace psgd {

struct OpenedPart {
  std::unique_ptr<PayloadReader> reader;
  // With the payload where it holds the factors of all that this shard has of their tensor.
  FactorUpdate::Part factors;
};

// Parts of a push that share a payload: as many, one after the other, as there are slices.
struct SharedPayload {
  int first = 0;               // part
  size_t payload = 0;          // of the message's
  std::vector<size_t> slices;  // of the shard's
  std::vector<SliceShape> shapes;
};

// How many payloads the parts are for.
size_t PayloadsOf(const Push& push);

// The first of the slices from `local` on that is of another tensor, or their number.
size_t EndOfTensor(std::span<const SliceState> slices, size_t local);

// Of a message's payloads together, when they are unpacked: as much as a message may have
// otherwise.
inline constexpr size_t kMostUnpacked = 64u << 20;

// In order. REQUIRES: every part names a slice of the shard. `local`: indices in `slices`, by slice
// id.
absl::StatusOr<std::vector<SharedPayload>> SharedPayloads(const std::vector<SliceState>& slices,
                                                          const std::vector<int64_t>& local,
                                                          const Push& push);

// Checks every byte of a message with a push; one for each part. Payloads that came packed are
// replaced by what they are, for good. REQUIRES: PayloadsOf says how many payloads there are, and
// as SharedPayloads.
absl::StatusOr<std::vector<OpenedPart>> OpenPush(const CodecTable& codecs,
                                                 const std::vector<SliceState>& slices,
                                                 const std::vector<int64_t>& local,
                                                 Message* message);

// One payload of a push that OpenPush has seen; one for each of its parts.
absl::StatusOr<std::vector<OpenedPart>> OpenPayload(const CodecTable& codecs,
                                                    const std::vector<SliceState>& slices,
                                                    const Message& message,
                                                    const SharedPayload& shared);

// Of a push that OpenPush has seen; the message must outlive it.
struct WaitingPayload {
  const Message* message = nullptr;
  SharedPayload shared;

  // What its readers hold beside the message, at most.
  uint64_t UnpackedBytes() const;
};

// How many, from the first on, hold no more than that together; at least one, where there is any.
size_t HowManyFit(std::span<const WaitingPayload> payloads, uint64_t most_bytes);

}  // namespace psgd
