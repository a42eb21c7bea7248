// How a column of a table becomes inputs of a network.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

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

// Rows in memory, 4 bytes a column.
struct CodedRows {
  std::vector<ColumnCode> columns;
  std::vector<float> cells;  // rows x columns

  // The inputs that all columns of a row make together.
  size_t width() const {
    size_t sum = 0;
    for (const ColumnCode& column : columns) sum += column.width;
    return sum;
  }
  // REQUIRES: `inputs` has room for width().
  void FillInputs(size_t row, float* inputs) const {
    const float* cell = cells.data() + row * columns.size();
    for (const ColumnCode& column : columns) {
      column.FillInputs(*cell++, inputs);
      inputs += column.width;
    }
  }
};

}  // namespace psgd
