// The products of factors have the same bits on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compression/kernels.h"
#include "tests/conformance/codec/codec_cases.h"

namespace psgd::codec_test {
namespace {

TEST(FactorsTwins, MultiplyAlike) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomStream stream(MakeKey(seed, RandomPurpose::kSynthetic), 11);
    const size_t rows = 1 + stream.NextBelow(10), rank = 1 + stream.NextBelow(40);
    const size_t columns = 1 + stream.NextBelow(150), stride = columns + stream.NextBelow(9);
    const std::vector<float> left = RandomTensor(rows * rank, &stream);
    const std::vector<float> right = RandomTensor(rank * stride, &stream);
    std::vector<float> expected;
    for (const Twin& twin : AllTwins()) {
      const UseTwin use(twin);
      std::vector<float> out(rows * columns, -1.0f);
      KernelsFor(twin.backend)
          .low_rank.multiply(left.data(), rows, rank, right.data(), stride, columns, out.data());
      if (expected.empty()) expected = out;
      // Bits of NaN may differ, which huge values make and a payload may not have.
      for (size_t i = 0; i < out.size(); ++i) {
        if (std::isnan(expected[i]) && std::isnan(out[i])) out[i] = expected[i];
      }
      ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0)
          << twin.name << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace psgd::codec_test
