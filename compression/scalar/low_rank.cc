#include "compression/scalar/low_rank.h"

#include "compression/lanes.h"
#include "compression/payload_bytes.h"

namespace psgd::scalar {

double Dot(std::span<const float> x, const float* y) {
  Lanes<float> sums;
  for (size_t i = 0; i < x.size(); ++i) sums.value[i % kLanes] += x[i] * y[i];
  return sums.Sum();
}

void Expand(const std::byte* left, const std::byte* right, size_t stride, uint32_t rank,
            float scale, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    float sum = 0;
    for (uint32_t k = 0; k < rank; ++k) {
      sum += LoadField<float>(left + k * sizeof(float)) *
             LoadField<float>(right + (k * stride + i) * sizeof(float));
    }
    y[i] += scale * sum;
  }
}

void Multiply(const float* left, size_t rows, size_t rank, const float* right, size_t stride,
              size_t columns, float* out) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      float sum = 0;
      for (size_t k = 0; k < rank; ++k) sum += left[r * rank + k] * right[k * stride + c];
      out[r * columns + c] = sum;
    }
  }
}

}  // namespace psgd::scalar
