// Exact selection of the elements of largest magnitude, without sorting. Magnitudes of floats order
// like their bits without the sign, so selection is a radix search over 31-bit numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "compression/sparse/sample_plan.h"

namespace psgd {

// Keeps every magnitude above `least` and the first `ties` of those equal to it.
struct Cut {
  uint32_t least = 0;
  size_t ties = 0;
};

// The cut that keeps exactly `keep` of the values. REQUIRES: 0 < keep <= values.size().
Cut FindCut(std::span<const float> values, size_t keep, std::vector<uint32_t>* scratch);

// Magnitude bits that about `keep` of so many elements reach, from a sample; with `enough`, a
// little more than `keep` nearly always. Only a guess: the caller counts. At least kLeastNotZero.
// `sample` writes kSampleRun elements from an index on.
uint32_t GuessLeast(size_t elements, absl::FunctionRef<void(size_t begin, float* run)> sample,
                    size_t keep, bool enough, std::vector<uint32_t>* scratch);

}  // namespace psgd
