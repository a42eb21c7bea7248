#include "compression/orthonormal.h"

#include <cmath>

namespace psgd {
namespace {

constexpr double kLeastShare = 1e-6;

double ColumnDot(std::span<const float> matrix, size_t columns, size_t a, size_t b) {
  double sum = 0;
  for (size_t row = 0; row < matrix.size(); row += columns) {
    sum += static_cast<double>(matrix[row + a]) * matrix[row + b];
  }
  return sum;
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
    const double inverse = norm > kLeastShare * before ? 1 / norm : 0;
    for (size_t row = 0; row < matrix.size(); row += columns) {
      matrix[row + k] = static_cast<float>(matrix[row + k] * inverse);
    }
  }
}

}  // namespace psgd
