// Compares gradients as factors with ordinary gradients.
#pragma once

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace psgd::testing {

// The product of the factors in Net::gradient(index).
template <typename Net>
std::vector<float> ProductOfFactors(const Net& network, int index) {
  const auto& shape = network.spec().parameters(index).shape();
  const auto outputs = static_cast<size_t>(shape[0]), inputs = static_cast<size_t>(shape[1]);
  const auto rows = static_cast<size_t>(network.factor_rows(index));
  const auto factors = network.gradient(index);
  EXPECT_EQ(factors.size(), rows * (inputs + outputs));
  std::vector<float> product(outputs * inputs);
  for (size_t n = 0; n < rows; ++n) {
    const auto x = factors.subspan(n * (inputs + outputs), inputs);
    const auto dy = factors.subspan(n * (inputs + outputs) + inputs, outputs);
    for (size_t o = 0; o < outputs; ++o) {
      for (size_t i = 0; i < inputs; ++i) product[o * inputs + i] += dy[o] * x[i];
    }
  }
  return product;
}

// Returns the number of gradients as factors. REQUIRES: both networks have just made the same step.
template <typename Net>
int ExpectSameGradients(const Net& factored, const Net& plain, float bound) {
  int found = 0;
  for (int i = 0; i < plain.spec().parameters_size(); ++i) {
    const bool has_factors = factored.factor_rows(i) > 0;
    found += has_factors;
    const auto expected = plain.gradient(i);
    const auto whole = factored.gradient(i);
    const std::vector<float> actual = has_factors ? ProductOfFactors(factored, i)
                                                  : std::vector<float>(whole.begin(), whole.end());
    EXPECT_EQ(actual.size(), expected.size());
    float largest = 1e-6f;
    for (float value : expected) largest = std::max(largest, std::abs(value));
    for (size_t k = 0; k < expected.size(); ++k) {
      EXPECT_LE(std::abs(actual[k] - expected[k]), bound * largest)
          << plain.spec().parameters(i).name() << ", element " << k;
      if (::testing::Test::HasFailure()) return found;
    }
  }
  return found;
}

}  // namespace psgd::testing
