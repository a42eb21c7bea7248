// Formats of tensors in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace psgd::cudnn {

enum class Type { kFloat, kBfloat16, kHalf };
inline constexpr size_t TypeBytes(Type type) { return type == Type::kFloat ? 4 : 2; }

enum class Layout {
  kPlain,         // row-major
  kChannelsLast,  // four axes, the second one innermost
};

struct Format {
  Layout layout = Layout::kPlain;
  Type type = Type::kFloat;
  // Channels-last memory may have more channels than the tensor, the rest zeros. 0: as many.
  int64_t channels = 0;
  bool operator==(const Format&) const = default;
};

inline constexpr Format kPlainFloat = {};

}  // namespace psgd::cudnn
