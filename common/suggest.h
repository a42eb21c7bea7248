// "did you mean": the closest of the words that would have been right.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace psgd {

// `; did you mean "x"?` for the known word closest to `wrong`, ignoring case; empty when none is
// close.
std::string Suggest(absl::string_view wrong, const std::vector<std::string>& known);

}  // namespace psgd
