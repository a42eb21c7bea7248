#include "worker/decode_cost.h"

#include <algorithm>

#include "common/clock.h"
#include "compression/lossless.h"

namespace psgd {
namespace {

void AddEntries(PayloadReader& reader, std::span<float> weights) {
  constexpr size_t kEntries = 512;
  uint32_t indices[kEntries];
  float values[kEntries];
  while (const size_t count = reader.NextEntries(indices, values)) {
    for (size_t i = 0; i < count; ++i) weights[indices[i]] += values[i];
  }
}

void AddBlocks(PayloadReader& reader, std::span<float> weights) {
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < weights.size(); begin += kBlock) {
    reader.AddBlock(1.0f, weights.subspan(begin, std::min(kBlock, weights.size() - begin)));
  }
}

}  // namespace

absl::StatusOr<double> SecondsToApply(const Codec& codec, const SliceShape& shape,
                                      const Bytes& came, uint32_t planes,
                                      std::span<float> weights) {
  const Time start = SteadyNow();
  PSGD_ASSIGN_OR_RETURN(const Bytes payload,
                        Unpack(came, planes, codec.MaxPayload(shape.elements)));
  PSGD_ASSIGN_OR_RETURN(const auto reader, codec.Open(payload.span(), shape));
  if (reader->sparse()) {
    AddEntries(*reader, weights);
  } else {
    AddBlocks(*reader, weights);
  }
  return Seconds(SteadyNow() - start);
}

}  // namespace psgd
