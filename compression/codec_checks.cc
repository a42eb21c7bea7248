#include "compression/codec_checks.h"

#include <cmath>

namespace psgd {

absl::Status CheckLength(absl::string_view codec, ByteSpan payload, size_t elements,
                         size_t expected) {
  if (payload.size() == expected) return absl::OkStatus();
  return InvalidArgumentError(codec, " payload of ", payload.size(), " bytes for ", elements,
                              " elements: ", expected, " expected");
}

absl::Status NotFinite(absl::string_view codec) {
  return OutOfRangeError(codec, " payload holds NaN or infinity");
}

absl::Status CheckMagnitude(absl::string_view codec, float value) {
  if (!std::isfinite(value)) {
    return OutOfRangeError(codec, " value is not finite");
  }
  if (!std::signbit(value)) return absl::OkStatus();
  return InvalidArgumentError(codec, " value is negative");
}

absl::Status CheckSigns(absl::string_view codec, ByteSpan bits, size_t elements) {
  if (elements % 8 == 0 || std::to_integer<unsigned>(bits.back()) >> (elements % 8) == 0) {
    return absl::OkStatus();
  }
  return InvalidArgumentError(codec, " payload has bits beyond its last element");
}

absl::Status CheckDensity(absl::string_view codec, double density) {
  if (density > 0 && density <= 1) return absl::OkStatus();
  return InvalidArgumentError(
      "compression ", codec, ".density is ", density,
      "; it is the share of elements sent: above 0, at most 1, such as 0.01");
}

}  // namespace psgd
