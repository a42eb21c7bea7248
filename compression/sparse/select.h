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

// Keeps every magnitude above `least`, and the first `ties` that equal it.
struct Cut {
  uint32_t least = 0;
  size_t ties = 0;
};

// Returns the cut that keeps exactly `keep` values. REQUIRES: 0 < keep <= values.size().
Cut FindCut(std::span<const float> values, size_t keep, std::vector<uint32_t>* scratch);

// Guesses from a sample the magnitude bits that about `keep` of the elements reach; with `enough`,
// nearly always a little more than `keep`. The caller must count. The guess is at least
// kLeastNotZero. `sample` writes kSampleRun elements from an index on.
uint32_t GuessLeast(size_t elements, absl::FunctionRef<void(size_t begin, float* run)> sample,
                    size_t keep, bool enough, std::vector<uint32_t>* scratch);

}  // namespace psgd
