// What other systems call our keys.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace psgd {

// A hint for a name that other systems use, given in `section` ("" for the whole config): "; psgd
// calls it data.batch", or an option of a program. Empty: the name is not known, or means something
// else in this section.
std::string HintForOtherName(absl::string_view name, absl::string_view section);

}  // namespace psgd
