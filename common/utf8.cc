#include "common/utf8.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

// The length of a character whose first byte is `lead`, and the range of its second byte. The range
// excludes overlong forms, surrogates and values above U+10FFFF. See the Unicode Standard, table
// 3-7.
struct Shape {
  size_t length;
  uint8_t low;
  uint8_t high;
};

Shape ShapeOf(uint8_t lead) {
  if (lead == '\t' || lead == '\n' || lead == '\r') return {1, 0, 0};
  if (lead < 0x20 || lead == 0x7F) return {0, 0, 0};
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead < 0xF0) {
    return {3, static_cast<uint8_t>(lead == 0xE0 ? 0xA0 : 0x80),
            static_cast<uint8_t>(lead == 0xED ? 0x9F : 0xBF)};
  }
  if (lead < 0xF5) {
    return {4, static_cast<uint8_t>(lead == 0xF0 ? 0x90 : 0x80),
            static_cast<uint8_t>(lead == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0, 0, 0};
}

}  // namespace

size_t FindNonText(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Shape shape = ShapeOf(static_cast<uint8_t>(text[i]));
    if (shape.length == 0 || text.size() - i < shape.length) return i;
    for (size_t k = 1; k < shape.length; ++k) {
      const uint8_t byte = static_cast<uint8_t>(text[i + k]);
      if (byte < (k == 1 ? shape.low : 0x80) || byte > (k == 1 ? shape.high : 0xBF)) return i;
    }
    i += shape.length;
  }
  return absl::string_view::npos;
}

absl::string_view StartOf(absl::string_view text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<uint8_t>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

std::string Quote(absl::string_view text) {
  constexpr size_t kShown = 60;
  const absl::string_view shown = StartOf(text, kShown);
  return absl::StrCat("\"", absl::Utf8SafeCEscape(shown),
                      shown.size() < text.size() ? "...\"" : "\"");
}

}  // namespace psgd
