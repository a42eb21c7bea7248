// How a column of a table becomes inputs of a network.
#pragma once

#include <algorithm>
#include <cstddef>

namespace psgd {

// A column has a cell a row. A number is one input, its cell. A category is an input a value, of
// which that of the cell is 1; below 0: none.
struct ColumnCode {
  bool category = false;
  size_t width = 1;  // inputs

  // REQUIRES: `inputs` has room for `width`.
  void FillInputs(float cell, float* inputs) const {
    if (!category) {
      *inputs = cell;
      return;
    }
    std::fill_n(inputs, width, 0.0f);
    if (cell >= 0) inputs[static_cast<size_t>(cell)] = 1;
  }
};

}  // namespace psgd
