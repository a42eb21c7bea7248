// How well scores tell two kinds of samples apart.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace psgd {

// The area under the receiver operating characteristic (AUC): the chance that a sample of the one
// kind has a higher score than one of the other; equal scores count half. It is exact, and keeps
// every score. Not thread-safe.
class AreaUnderCurve {
 public:
  void Add(float score, bool is);
  // Nothing if all samples are of one kind, or if a score is not a number.
  std::optional<double> Value() const;

 private:
  std::vector<float> scores_, others_;  // of the one kind, of the other
};

}  // namespace psgd
