// Weighted sums along one axis, by a sparse matrix of constants:
//   y[..., i, ...] = sum over the entries k of row i: weight[k] x[..., source[k], ...]
// It takes, repeats, reverses, adds up, averages or interpolates elements. dx is the AxisMap of dy
// by the transposed matrix.    x: ... A ...    y: ... B ...
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace psgd {

// The entries of row i are from first[i] to first[i + 1] - 1.
struct AxisMatrix {
  int64_t columns = 0;
  std::vector<int32_t> first = {0};
  std::vector<int32_t> source = {};
  std::vector<float> weight = {};

  int64_t rows() const { return static_cast<int64_t>(first.size()) - 1; }
  void Add(int64_t column, float value) {
    source.push_back(static_cast<int32_t>(column));
    weight.push_back(value);
  }
  void EndRow() { first.push_back(static_cast<int32_t>(source.size())); }
};

// x -> y
struct AxisMap {
  int axis = 0;
  std::shared_ptr<const AxisMatrix> matrix = {};
};

// Row i takes element index[i] of `columns` elements.
AxisMatrix TakingRows(const std::vector<int64_t>& index, int64_t columns);
// One row that adds up all elements, each times `weight`.
AxisMatrix AddingRow(int64_t columns, float weight);
AxisMatrix Transposed(const AxisMatrix& matrix);

}  // namespace psgd
