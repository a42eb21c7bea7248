// "did you mean": suggests the closest known word.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace psgd {

// Returns `; did you mean "x"?` for the known word closest to `wrong`, ignoring case. Empty when no
// word is close.
std::string Suggest(absl::string_view wrong, const std::vector<std::string>& known);

}  // namespace psgd
