// The numbers of tests/golden/make_networks.py. Networks have up to a hundred million weights, and
// tests are not optimized: golden_numbers.cc is.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace psgd::testing {

// The script's unit(stream, ...)[index].
double Unit(uint64_t stream, uint64_t index);

// Sets values[i] to scale * (2 * Unit(stream, i) - 1) + center, rounded to float.
void FillRandom(uint64_t stream, double scale, double center, std::span<float> values);
void FillRandom(uint64_t stream, double scale, double center, std::span<double> values);

struct Kept {
  double length = 0;
  double product = 0;  // dot product with a stream's vector
};
Kept KeptOf(std::span<const float> values, uint64_t stream);
Kept KeptOf(std::span<const double> values, uint64_t stream);

// values[i] += factor * gradient[i]
void AddTo(std::span<float> values, float factor, std::span<const float> gradient);
void AddTo(std::span<double> values, double factor, std::span<const double> gradient);

}  // namespace psgd::testing
