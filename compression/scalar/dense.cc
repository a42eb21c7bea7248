#include "compression/scalar/dense.h"

#include <cstdint>
#include <cstring>

#include "compression/lanes.h"

namespace psgd::scalar {
namespace {

template <typename T>
T LoadAt(const std::byte* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

void Add(std::span<const float> x, std::span<float> y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] += x[i];
}

void AddScaled(float scale, const std::byte* x, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += scale * LoadAt<float>(x, i);
}

bool AllFinite(const std::byte* x, size_t count) {
  bool finite = true;
  for (size_t i = 0; i < count; ++i) finite &= (LoadAt<uint32_t>(x, i) & 0x7FFFFFFFu) < 0x7F800000u;
  return finite;
}

double SumSquares(std::span<const float> x) {
  Lanes<double> squares;
  for (size_t i = 0; i < x.size(); ++i) {
    squares.value[i % kLanes] += static_cast<double>(x[i]) * x[i];
  }
  return squares.Sum();
}

void Blend(float keep, std::span<const float> x, float share, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] = keep * y[i] + share * x[i];
}

}  // namespace psgd::scalar
