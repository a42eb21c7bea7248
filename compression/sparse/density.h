// The share of elements that sparse codecs send.
#pragma once

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "compression/sparse/density_count.h"

namespace psgd {

// Returns an error that names the codec, unless `density` is above 0 and at most 1.
absl::Status CheckDensity(absl::string_view codec, double density);

}  // namespace psgd
