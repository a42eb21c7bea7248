#include "server/shard/open_push.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/lossless.h"
#include "compression/low_rank/factors_payload.h"

namespace psgd {
namespace {

// Whether `group` is all slices that the shard has of a tensor, in order.
bool AreWholeTensor(std::span<const SliceState> slices, std::span<const size_t> group) {
  const size_t first = group.front();
  if (first > 0 && slices[first - 1].spec.parameter() == slices[first].spec.parameter()) {
    return false;
  }
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i] != first + i) return false;
  }
  return EndOfTensor(slices, first) == first + group.size();
}

std::string WhatIs(const PushPart& part, const Codec& codec) {
  return absl::StrCat("slice ", part.slice(), ", codec ", std::string(codec.name()));
}

}  // namespace

size_t PayloadsOf(const Push& push) {
  return static_cast<size_t>(std::ranges::count_if(
      push.parts(), [](const PushPart& part) { return !part.with_previous(); }));
}

size_t EndOfTensor(std::span<const SliceState> slices, size_t local) {
  size_t end = local;
  while (end < slices.size() && slices[end].spec.parameter() == slices[local].spec.parameter()) {
    ++end;
  }
  return end;
}

absl::StatusOr<std::vector<SharedPayload>> SharedPayloads(const std::vector<SliceState>& slices,
                                                          const std::vector<int64_t>& local,
                                                          const Push& push) {
  std::vector<SharedPayload> all;
  for (int i = 0; i < push.parts_size();) {
    const PushPart& part = push.parts(i);
    if (part.with_previous()) {
      return absl::InvalidArgumentError("the first part has the payload of one before it");
    }
    SharedPayload shared;
    shared.first = i;
    shared.payload = all.size();
    do {
      const PushPart& also = push.parts(i);
      shared.slices.push_back(static_cast<size_t>(local[also.slice()]));
      const SliceState& slice = slices[shared.slices.back()];
      if (also.codec() != part.codec() || also.zstd() != part.zstd() ||
          slice.spec.parameter() != slices[shared.slices.front()].spec.parameter()) {
        return InvalidArgumentError("slices ", part.slice(), " and ", also.slice(),
                                    " share a payload, but not their tensor, codec and packing");
      }
      shared.shapes.push_back(slice.shape);
    } while (++i < push.parts_size() && push.parts(i).with_previous());
    all.push_back(std::move(shared));
  }
  return all;
}

absl::StatusOr<std::vector<SharedPayload>> OpenPush(const CodecTable& codecs,
                                                    const std::vector<SliceState>& slices,
                                                    const std::vector<int64_t>& local,
                                                    Message* message) {
  Push& push = *message->header.mutable_push();
  PSGD_ASSIGN_OR_RETURN(std::vector<SharedPayload> payloads, SharedPayloads(slices, local, push));
  size_t unpacked = 0;
  for (SharedPayload& shared : payloads) {
    const PushPart& part = push.parts(shared.first);
    const Codec* codec = codecs.Find(part.codec());
    if (codec == nullptr) {
      return InvalidArgumentError("unknown codec ", part.codec());
    }
    if (part.zstd() != 0) {
      const size_t most =
          std::min(codec->MaxSharedPayload(shared.shapes), kMostUnpacked - unpacked);
      Bytes& bytes = message->payloads[shared.payload];
      auto plain = Unpack(bytes, part.zstd(), most);
      if (!plain.ok()) return Annotate(plain.status(), WhatIs(part, *codec));
      unpacked += plain->size();
      bytes = *std::move(plain);
    }
    PSGD_ASSIGN_OR_RETURN(shared.opened, OpenPayload(codecs, slices, *message, shared));
  }
  for (PushPart& part : *push.mutable_parts()) part.clear_zstd();
  return payloads;
}

absl::StatusOr<std::vector<OpenedPart>> OpenPayload(const CodecTable& codecs,
                                                    const std::vector<SliceState>& slices,
                                                    const Message& message,
                                                    const SharedPayload& shared) {
  const Push& push = message.header.push();
  const PushPart& part = push.parts(shared.first);
  const Codec& codec = *codecs.Find(part.codec());
  const Bytes& bytes = message.payloads[shared.payload];
  auto readers = codec.OpenShared(bytes.span(), shared.shapes);
  if (!readers.ok()) return Annotate(readers.status(), WhatIs(part, codec));
  for (const auto& reader : *readers) {
    // Written as !(a <= b), so that NaN is refused too.
    if (const float largest = reader->Largest(); !(largest <= kLargestUpdate)) {
      return OutOfRangeError(WhatIs(part, codec), ": values up to ", largest, ", beyond ",
                             kLargestUpdate);
    }
  }
  const bool repeatable = codec.id() == CODEC_FACTORS && (*readers)[0]->without_decay() &&
                          AreWholeTensor(slices, shared.slices);
  FactorUpdate::Part factors;
  if (repeatable) {
    factors.payload = bytes;
    factors.worker = message.header.worker();
    factors.incarnation = message.header.incarnation();
    factors.clock = push.clock();
  }
  std::vector<OpenedPart> opened;
  for (auto& reader : *readers) opened.push_back({std::move(reader), factors});
  return opened;
}

uint64_t WaitingPayload::UnpackedBytes() const {
  if (message->header.push().parts(shared.first).codec() != CODEC_FACTORS) return 0;
  const uint64_t factors = FactorFloats(message->payloads[shared.payload].span(), shared.shapes);
  return factors == 0 ? 0 : (factors + kMostTileFloats) * sizeof(float);
}

size_t HowManyFit(std::span<const WaitingPayload> payloads, uint64_t most_bytes) {
  uint64_t bytes = 0;
  size_t count = 0;
  for (; count < payloads.size(); ++count) {
    bytes += payloads[count].UnpackedBytes();
    if (count > 0 && bytes > most_bytes) break;
  }
  return count;
}

}  // namespace psgd
