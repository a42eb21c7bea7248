// Patterns over the names of a model's parameters.
#pragma once

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "proto/model.pb.h"

namespace psgd {

// An error if the pattern of a key, such as compression.rules[0].match, fits no parameter: it would
// do nothing. The error names a parameter of a similar name.
absl::Status CheckMatch(absl::string_view key, absl::string_view glob, const ModelSpec& model);

}  // namespace psgd
