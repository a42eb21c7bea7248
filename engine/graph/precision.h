// The precision that a device computes in. Parameters, their gradients and sums are always fp32.
#pragma once

#include <cstddef>
#include <string>

#include "common/status.h"

namespace psgd {

enum class Precision {
  kFp32,
  kTf32,  // factors of products have 11 significant bits
  kBf16,  // factors and activations have 8 significant bits
  kFp16,  // as kBf16 with 11 bits, but only 6e-8 to 65504, so training uses a loss scale
};

// Bytes of an activation.
inline size_t RealBytes(Precision precision) {
  return precision == Precision::kBf16 || precision == Precision::kFp16 ? 2 : sizeof(float);
}

inline absl::StatusOr<Precision> PrecisionNamed(const std::string& name) {
  if (name == "fp32") return Precision::kFp32;
  if (name == "tf32") return Precision::kTf32;
  if (name == "bf16") return Precision::kBf16;
  if (name == "fp16") return Precision::kFp16;
  return InvalidArgumentError("no precision is called \"", name,
                              "\"; there are fp32, tf32, bf16 and fp16");
}

}  // namespace psgd
