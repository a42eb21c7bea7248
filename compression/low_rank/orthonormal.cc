#include "compression/low_rank/orthonormal.h"

#include <cmath>

#include "compression/lanes.h"
#include "compression/low_rank/low_rank.h"

namespace psgd {
namespace {

double ColumnDot(std::span<const float> matrix, size_t columns, size_t a, size_t b) {
  Lanes<double> sums;
  for (size_t at = 0, row = 0; at < matrix.size(); at += columns, ++row) {
    sums.value[row % kLanes] += static_cast<double>(matrix[at + a]) * matrix[at + b];
  }
  return sums.Sum();
}

}  // namespace

void MakeOrthonormal(std::span<float> matrix, size_t columns) {
  for (size_t k = 0; k < columns; ++k) {
    const double before = std::sqrt(ColumnDot(matrix, columns, k, k));
    for (size_t j = 0; j < k; ++j) {
      const double part = ColumnDot(matrix, columns, j, k);
      for (size_t row = 0; row < matrix.size(); row += columns) {
        matrix[row + k] = static_cast<float>(matrix[row + k] - part * matrix[row + j]);
      }
    }
    const double norm = std::sqrt(ColumnDot(matrix, columns, k, k));
    const double inverse = InverseNorm(norm, before);
    for (size_t row = 0; row < matrix.size(); row += columns) {
      matrix[row + k] = static_cast<float>(matrix[row + k] * inverse);
    }
  }
}

}  // namespace psgd
