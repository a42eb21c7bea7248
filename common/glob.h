// Patterns over names.
#pragma once

#include "absl/strings/string_view.h"

namespace psgd {

// Whether the whole of `name` matches: `*` stands for any characters, `?` for one.
bool GlobMatches(absl::string_view glob, absl::string_view name);

}  // namespace psgd
