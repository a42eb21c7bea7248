// The share of elements that sparse codecs send.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// An error that names the codec, unless it is above 0 and at most 1.
absl::Status CheckDensity(absl::string_view codec, double density);

// max(1, round(density * elements)), at most `elements`.
size_t CountAt(double density, size_t elements);

}  // namespace psgd
