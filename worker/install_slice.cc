#include "worker/install_slice.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

void Replace(PayloadReader& reader, std::span<float> weights) {
  if (const auto direct = reader.Direct(); !direct.empty()) {
    std::memcpy(weights.data(), direct.data(), direct.size_bytes());
  } else {
    std::fill(weights.begin(), weights.end(), 0.0f);
    reader.AddBlock(1.0f, weights);
  }
}

absl::Status Change(PayloadReader& reader, std::span<float> weights) {
  if (!reader.sparse()) return absl::DataLossError("changes came in a codec that names no elements");
  constexpr size_t kEntries = 512;
  uint32_t indices[kEntries];
  float values[kEntries];
  while (const size_t count = reader.NextEntries(indices, values)) {
    for (size_t i = 0; i < count; ++i) weights[indices[i]] = values[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InstallSlice(const CodecTable& codecs, const SliceShape& shape,
                          const PulledSlice& pulled, std::span<float> weights) {
  const Codec* codec = codecs.Find(pulled.codec);
  if (codec == nullptr) {
    return absl::DataLossError(absl::StrCat("weights came in an unknown codec, ", pulled.codec));
  }
  PSGD_ASSIGN_OR_RETURN(const auto reader, codec->Open(pulled.payload.span(), shape));
  switch (pulled.form) {
    case PullPart::CHANGED:
      return Change(*reader, weights);
    case PullPart::DIFFERENCE:
      reader->AddBlock(1.0f, weights);
      return absl::OkStatus();
    default:
      Replace(*reader, weights);
      return absl::OkStatus();
  }
}

}  // namespace psgd
