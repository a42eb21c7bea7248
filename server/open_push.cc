#include "server/open_push.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/lossless.h"

namespace psgd {
namespace {

// All of a tensor that the shard has, in order.
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

}  // namespace

size_t PayloadsOf(const Push& push) {
  return static_cast<size_t>(
      std::count_if(push.parts().begin(), push.parts().end(),
                    [](const PushPart& part) { return !part.with_previous(); }));
}

size_t EndOfTensor(std::span<const SliceState> slices, size_t local) {
  size_t end = local;
  while (end < slices.size() && slices[end].spec.parameter() == slices[local].spec.parameter()) {
    ++end;
  }
  return end;
}

absl::StatusOr<std::vector<OpenedPart>> OpenPush(const CodecTable& codecs,
                                                 const std::vector<SliceState>& slices,
                                                 const std::vector<int64_t>& local,
                                                 Message* message) {
  Push& push = *message->header.mutable_push();
  std::vector<OpenedPart> opened;
  opened.reserve(static_cast<size_t>(push.parts_size()));
  std::vector<size_t> group;
  std::vector<SliceShape> shapes;
  size_t payload = 0, unpacked = 0;
  for (int i = 0; i < push.parts_size(); ++payload) {
    const PushPart& part = push.parts(i);
    if (part.with_previous()) {
      return absl::InvalidArgumentError("the first part has the payload of one before it");
    }
    group.clear();
    shapes.clear();
    do {
      const PushPart& also = push.parts(i);
      group.push_back(static_cast<size_t>(local[also.slice()]));
      const SliceState& slice = slices[group.back()];
      if (also.codec() != part.codec() || also.zstd() != part.zstd() ||
          slice.spec.parameter() != slices[group.front()].spec.parameter()) {
        return absl::InvalidArgumentError(
            absl::StrCat("slices ", part.slice(), " and ", also.slice(),
                         " share a payload, but not their tensor, codec and packing"));
      }
      shapes.push_back(slice.shape);
    } while (++i < push.parts_size() && push.parts(i).with_previous());
    const Codec* codec = codecs.Find(part.codec());
    if (codec == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("unknown codec ", part.codec()));
    }
    Bytes& bytes = message->payloads[payload];
    const std::string what =
        absl::StrCat("slice ", part.slice(), ", codec ", std::string(codec->name()));
    if (part.zstd() != 0) {
      const size_t most = std::min(codec->MaxSharedPayload(shapes), kMostUnpacked - unpacked);
      auto plain = Unpack(bytes, part.zstd(), most);
      if (!plain.ok()) return Annotate(plain.status(), what);
      unpacked += plain->size();
      bytes = *std::move(plain);
    }
    auto readers = codec->OpenShared(bytes.span(), shapes);
    if (!readers.ok()) return Annotate(readers.status(), what);
    for (const auto& reader : *readers) {
      // Not greater: of products that might be NaN, nothing is believed.
      if (const float largest = reader->Largest(); !(largest <= kLargestUpdate)) {
        return absl::OutOfRangeError(
            absl::StrCat(what, ": values up to ", largest, ", beyond ", kLargestUpdate));
      }
    }
    const bool repeatable = codec->id() == CODEC_FACTORS && (*readers)[0]->without_decay() &&
                            AreWholeTensor(slices, group);
    FactorUpdate::Part factors;
    if (repeatable) {
      factors.payload = bytes;
      factors.worker = message->header.worker();
      factors.incarnation = message->header.incarnation();
      factors.clock = push.clock();
    }
    for (auto& reader : *readers) opened.push_back({std::move(reader), factors});
  }
  for (PushPart& part : *push.mutable_parts()) part.clear_zstd();
  return opened;
}

}  // namespace psgd
