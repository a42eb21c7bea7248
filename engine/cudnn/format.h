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
  bool operator==(const Format&) const = default;
};

inline constexpr Format kPlainFloat = {};

}  // namespace psgd::cudnn
