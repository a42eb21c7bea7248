// Thin matrices. Part of kernels.cc.
#include "compression/payload_bytes.h"
#include "compression/scalar/loops.h"

HWY_BEFORE_NAMESPACE();
namespace psgd::simd::HWY_NAMESPACE {

double Dot(std::span<const float> x, const float* y) {
  FloatVector sums[kVectors];
  for (size_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(Float());
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (size_t v = 0; v < kVectors; ++v) {
      const size_t at = i + v * kWidth;
      sums[v] = hn::Add(sums[v], hn::Mul(LoadFloats(&x[at]), LoadFloats(y + at)));
    }
  }
  Lanes<float> lanes;
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], Float(), lanes.value + v * kWidth);
  for (; i < x.size(); ++i) lanes.value[i % kLanes] += x[i] * y[i];
  return lanes.Sum();
}

void Expand(const std::byte* left, const std::byte* right, size_t stride, uint32_t rank,
            float scale, std::span<float> y) {
  const FloatVector factor = hn::Set(Float(), scale);
  size_t i = 0;
  for (; i + kWidth <= y.size(); i += kWidth) {
    FloatVector sum = hn::Zero(Float());
    for (uint32_t k = 0; k < rank; ++k) {
      const FloatVector l = hn::Set(Float(), LoadField<float>(left + k * sizeof(float)));
      sum = hn::Add(sum, hn::Mul(l, LoadFloats(right + (k * stride + i) * sizeof(float))));
    }
    hn::StoreU(hn::Add(LoadFloats(&y[i]), hn::Mul(factor, sum)), Float(), &y[i]);
  }
  scalar::Expand(left, right + i * sizeof(float), stride, rank, scale, y.subspan(i));
}

// A tile has several rows and columns, so that each loaded number is used more than once.
constexpr size_t kTileRows = 4, kTileVectors = 2;
constexpr size_t kTileColumns = kTileVectors * kWidth;

template <size_t kRows>
HWY_INLINE void MultiplyRows(const float* left, size_t rank, const float* right, size_t stride,
                             size_t columns, float* out) {
  for (size_t c = 0; c + kTileColumns <= columns; c += kTileColumns) {
    FloatVector sums[kRows][kTileVectors];
    for (auto& row : sums) {
      for (FloatVector& sum : row) sum = hn::Zero(Float());
    }
    for (size_t k = 0; k < rank; ++k) {
      FloatVector factors[kTileVectors];
      for (size_t v = 0; v < kTileVectors; ++v) {
        factors[v] = LoadFloats(right + k * stride + c + v * kWidth);
      }
      for (size_t r = 0; r < kRows; ++r) {
        const FloatVector l = hn::Set(Float(), left[r * rank + k]);
        for (size_t v = 0; v < kTileVectors; ++v) {
          sums[r][v] = hn::Add(sums[r][v], hn::Mul(l, factors[v]));
        }
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kTileVectors; ++v) {
        hn::StoreU(sums[r][v], Float(), out + r * columns + c + v * kWidth);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = columns - columns % kTileColumns; c < columns; ++c) {
      scalar::Multiply(left + r * rank, 1, rank, right + c, stride, 1, out + r * columns + c);
    }
  }
}

void Multiply(const float* left, size_t rows, size_t rank, const float* right, size_t stride,
              size_t columns, float* out) {
  size_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    MultiplyRows<kTileRows>(left + r * rank, rank, right, stride, columns, out + r * columns);
  }
  for (; r < rows; ++r) {
    MultiplyRows<1>(left + r * rank, rank, right, stride, columns, out + r * columns);
  }
}

}  // namespace psgd::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
