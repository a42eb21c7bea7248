// What counts as text in a config, and how to show what was read in an error.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace psgd {

// Where the first byte is that is no part of UTF-8 text: malformed sequences, and control
// characters other than tab and line ends. npos when all is text.
size_t FindNonText(absl::string_view text);

// `text` in quotes, cut when long, with control characters escaped: fit for one line on a terminal.
std::string Quote(absl::string_view text);

}  // namespace psgd
