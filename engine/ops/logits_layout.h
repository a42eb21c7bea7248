// The layout of plain logits, where a place (a sample, a token or a pixel) has a logit a class.
#pragma once

#include <cstdint>

#include "engine/graph/shape.h"

namespace psgd {

// Logit c of place n is at First(n) + c * inner.
struct LogitsLayout {
  explicit LogitsLayout(const Shape& x)
      : classes(x.size() == 4 ? x[1] : x.back()),
        inner(x.size() == 4 ? x[2] * x[3] : 1),
        places(ElementCount(x) / classes) {}
  int64_t First(int64_t place) const { return place / inner * classes * inner + place % inner; }

  int64_t classes;
  int64_t inner;  // from one class of a place to the next
  int64_t places;
};

}  // namespace psgd
