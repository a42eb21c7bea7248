#include "common/finite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace psgd {

// A loop without an exit, so that the compiler makes vectors of it.
bool AllFinite(ByteSpan numbers) {
  constexpr uint32_t kExponent = 0x7f800000;
  const size_t count = numbers.size() / sizeof(float);
  uint32_t any = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto bits = LoadField<uint32_t>(numbers.data() + i * sizeof(float));
    any |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  return any == 0;
}

std::optional<size_t> FirstNotFinite(std::span<const float> values) {
  if (AllFinite(AsBytes(values))) return std::nullopt;
  const auto first = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  return static_cast<size_t>(first - values.begin());
}

}  // namespace psgd
