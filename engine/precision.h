// What a device computes in. Parameters, their gradients and sums are fp32 in any case.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace psgd {

enum class Precision {
  kFp32,
  kTf32,  // factors of products are rounded to 11 significant bits
  kBf16,  // so are activations, and to 8
};

inline absl::StatusOr<Precision> PrecisionNamed(const std::string& name) {
  if (name == "fp32") return Precision::kFp32;
  if (name == "tf32") return Precision::kTf32;
  if (name == "bf16") return Precision::kBf16;
  return absl::InvalidArgumentError(
      absl::StrCat("no precision is called \"", name, "\"; there are fp32, tf32 and bf16"));
}

}  // namespace psgd
