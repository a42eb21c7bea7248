#include "tests/conformance/engine/golden_numbers.h"

namespace psgd::testing {
namespace {

template <typename T>
void Fill(uint64_t stream, double scale, double center, std::span<T> values) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * (2 * Unit(stream, i) - 1) + center);
}

template <typename T>
Kept Keep(std::span<const T> values, uint64_t stream) {
  Kept kept;
  for (size_t i = 0; i < values.size(); ++i) {
    kept.length += double{values[i]} * values[i];
    kept.product += values[i] * (2 * Unit(stream, i) - 1);
  }
  kept.length = std::sqrt(kept.length);
  return kept;
}

template <typename T>
void Add(std::span<T> values, T factor, std::span<const T> gradient) {
  for (size_t i = 0; i < values.size(); ++i) values[i] += factor * gradient[i];
}

}  // namespace

double Unit(uint64_t stream, uint64_t index) {
  uint64_t z = (stream << 40) + index + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<double>((z ^ (z >> 31)) >> 40) / 16777216.0;
}

void FillRandom(uint64_t stream, double scale, double center, std::span<float> values) {
  Fill(stream, scale, center, values);
}
void FillRandom(uint64_t stream, double scale, double center, std::span<double> values) {
  Fill(stream, scale, center, values);
}

Kept KeptOf(std::span<const float> values, uint64_t stream) { return Keep(values, stream); }
Kept KeptOf(std::span<const double> values, uint64_t stream) { return Keep(values, stream); }

void AddTo(std::span<float> values, float factor, std::span<const float> gradient) {
  Add(values, factor, gradient);
}
void AddTo(std::span<double> values, double factor, std::span<const double> gradient) {
  Add(values, factor, gradient);
}

}  // namespace psgd::testing
