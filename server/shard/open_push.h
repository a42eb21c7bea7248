// Turns the payloads of a push into readers of its updates.
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
  // The payload, if it holds the factors of all slices that this shard has of the tensor.
  FactorUpdate::Part factors;
};

// Parts of a push that share a payload: consecutive parts, one for each slice.
struct SharedPayload {
  int first = 0;               // index of the first part
  size_t payload = 0;          // index in the message's payloads
  std::vector<size_t> slices;  // indices in the shard's slices
  std::vector<SliceShape> shapes;
  std::vector<OpenedPart> opened;  // each part, while the payload is open
};

// The number of payloads that the parts need.
size_t PayloadsOf(const Push& push);

// The first slice after `local` of another tensor, or slices.size().
size_t EndOfTensor(std::span<const SliceState> slices, size_t local);

// Bytes that a message's payloads may have when unpacked: the limit of a message that is not
// packed.
inline constexpr size_t kMostUnpacked = 64u << 20;

// The shared payloads, in order, not opened. `local`: indices in `slices`, by slice id. REQUIRES:
// every part names a slice of the shard.
absl::StatusOr<std::vector<SharedPayload>> SharedPayloads(const std::vector<SliceState>& slices,
                                                          const std::vector<int64_t>& local,
                                                          const Push& push);

// Checks every byte of a message with a push, and opens its payloads. Replaces packed payloads in
// the message by their unpacked bytes, which must outlive the result. REQUIRES: the message has
// PayloadsOf payloads, and SharedPayloads' requirement holds.
absl::StatusOr<std::vector<SharedPayload>> OpenPush(const CodecTable& codecs,
                                                    const std::vector<SliceState>& slices,
                                                    const std::vector<int64_t>& local,
                                                    Message* message);

// Opens each part of one payload. REQUIRES: OpenPush has checked the push.
absl::StatusOr<std::vector<OpenedPart>> OpenPayload(const CodecTable& codecs,
                                                    const std::vector<SliceState>& slices,
                                                    const Message& message,
                                                    const SharedPayload& shared);

// A payload of a push that OpenPush has checked. `message` must outlive it.
struct WaitingPayload {
  const Message* message = nullptr;
  SharedPayload shared;
  uint32_t steps = 1;   // how many its worker took for it
  uint64_t late = 0;    // exchanges of its slices from the one it was made for
  uint64_t of_all = 0;  // if it is late: steps that all workers took for the clock it was made for

  // The most bytes that its readers hold besides the message.
  uint64_t UnpackedBytes() const;
};

// How many of the first payloads together hold at most `most_bytes`; at least 1 unless there are
// none.
size_t HowManyFit(std::span<const WaitingPayload> payloads, uint64_t most_bytes);

}  // namespace psgd
