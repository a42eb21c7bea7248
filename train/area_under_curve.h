// How well scores tell two kinds of samples apart.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace psgd {

// The area under the receiver operating characteristic (AUC): the chance that a sample of the first
// kind has a higher score than a sample of the other kind. Equal scores count half. The area is
// exact, so every score is kept. Not thread-safe.
class AreaUnderCurve {
 public:
  void Add(float score, bool is);
  // Nullopt: all samples are of one kind, or a score is not a number.
  std::optional<double> Value() const;

 private:
  std::vector<float> scores_, others_;  // of the first kind, of the other kind
};

}  // namespace psgd
