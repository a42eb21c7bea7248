// A slice as a matrix of whole tensor rows. The first and the last row may be cut short; the
// missing elements count as zeros.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compression/codec.h"

namespace psgd {

struct MatrixView {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t first = 0;  // column of the slice's first element
  uint32_t elements = 0;

  explicit MatrixView(const SliceShape& shape)
      : columns(shape.tensor_columns), elements(shape.elements) {
    if (columns == 0) return;
    first = shape.offset % columns;
    rows = (first + elements + columns - 1) / columns;
  }

  // Calls body(row, column, begin, count) for each stretch within a row of the elements from
  // `position` on. REQUIRES: columns > 0.
  template <typename Body>
  void ForRows(size_t position, size_t total, Body body) const {
    for (size_t done = 0; done < total;) {
      const uint64_t at = first + position + done;
      const uint64_t column = at % columns;
      const size_t count = std::min<uint64_t>(columns - column, total - done);
      body(at / columns, column, done, count);
      done += count;
    }
  }
};

}  // namespace psgd
