#include "compression/sparse/density.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace psgd {

absl::Status CheckDensity(absl::string_view codec, double density) {
  if (density > 0 && density <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("compression ", std::string(codec), ".density is ", density,
                   "; it is the share of elements sent: above 0, at most 1, such as 0.01"));
}

}  // namespace psgd
