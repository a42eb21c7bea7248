// What other systems call our keys.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace psgd {

// Our key, or the option of a program, for a name that other systems use in place of it, as
// "optimizer.sgd.learning_rate" for "lr". Empty: the name is not known.
std::string OurNameFor(absl::string_view name);

}  // namespace psgd
