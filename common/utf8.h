// What counts as text, and how it is cut and shown.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace psgd {

// Finds the first byte that is not UTF-8 text: a malformed sequence, or a control character other
// than tab and line ends. Returns npos if all is text.
size_t FindNonText(absl::string_view text);

// The first `size` bytes of `text`, or fewer: it ends at the end of a UTF-8 character.
absl::string_view StartOf(absl::string_view text, size_t size);

// Puts `text` in quotes, cuts it if long and escapes control characters, so that it fits one line
// on a terminal.
std::string Quote(absl::string_view text);

}  // namespace psgd
