// Products of factors have the same bits on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compression/kernels.h"
#include "compression/low_rank/factors_payload.h"
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
      // Huge values make NaN, whose bits may differ. No payload may have such values.
      for (size_t i = 0; i < out.size(); ++i) {
        if (std::isnan(expected[i]) && std::isnan(out[i])) out[i] = expected[i];
      }
      ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0)
          << twin.name << ", seed " << seed;
    }
  }
}

// Whole encoders give the same payloads and products for every coding of the values, also with rows
// longer than a reader's tile (16384 columns), and in slices that begin within a row.
TEST(FactorsTwins, WriteAndReadAlike) {
  constexpr uint64_t kSeeds = 2000, kLongEvery = 100;
  std::vector<std::byte> first_payload, payload;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    RandomStream stream(MakeKey(seed, RandomPurpose::kSynthetic), 12);
    const bool is_long = seed % kLongEvery == 0;
    SliceShape whole;
    whole.tensor_rows = is_long ? 2 + stream.NextBelow(3) : 2 + stream.NextBelow(30);
    whole.tensor_columns = is_long ? 16384 + stream.NextBelow(3000) : 2 + stream.NextBelow(60);
    const uint64_t all = whole.tensor_rows * whole.tensor_columns;
    const uint64_t batch = 1 + stream.NextBelow(is_long ? 1 : 4);
    const size_t width = whole.tensor_rows + whole.tensor_columns;
    std::vector<float> factors = RandomTensor(batch * width, &stream);
    // The product must be finite, and some inputs are zeros of a relu.
    constexpr float kMost = 1e15f;
    const uint32_t zeros = stream.NextBelow(4);
    for (float& value : factors) {
      value = stream.NextBelow(4) < zeros ? 0 : std::clamp(value, -kMost, kMost);
    }
    const auto cut = static_cast<uint32_t>(1 + stream.NextBelow(static_cast<uint32_t>(all - 1)));
    std::vector<SliceShape> shapes(2, whole);
    shapes[0].elements = cut;
    shapes[1].offset = cut;
    shapes[1].elements = static_cast<uint32_t>(all - cut);
    const FactorsDraw draw = {MakeKey(seed, RandomPurpose::kCodec), seed};
    const auto block = 1 + stream.NextBelow(static_cast<uint32_t>(2 * whole.tensor_columns));
    for (const ValueCoding coding : {ValueCoding::kFloat, ValueCoding::kHalf, ValueCoding::kByte}) {
      std::vector<float> expected;
      for (const Twin& twin : AllTwins()) {
        const UseTwin use(twin);
        FactorsEncoder encoder(KernelsFor(twin.backend), coding);
        encoder.Begin(factors, batch, whole.tensor_columns, draw);
        payload.clear();
        if (!encoder.Encode(shapes, &payload)) break;  // the payload would not pay
        const auto readers = OpenFactors(payload, shapes, KernelsFor(twin.backend));
        ASSERT_TRUE(readers.ok()) << readers.status() << ", seed " << seed;
        std::vector<float> product(all);
        for (size_t s = 0; s < shapes.size(); ++s) {
          auto left = std::span(product).subspan(shapes[s].offset, shapes[s].elements);
          while (!left.empty()) {
            const size_t count = std::min<size_t>(left.size(), block);
            (*readers)[s]->AddBlock(0.5f, left.first(count));
            left = left.subspan(count);
          }
        }
        if (expected.empty()) {
          expected = product;
          first_payload = payload;
        }
        ASSERT_EQ(payload, first_payload) << twin.name << ", seed " << seed;
        ASSERT_EQ(std::memcmp(product.data(), expected.data(), all * sizeof(float)), 0)
            << twin.name << ", seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace psgd::codec_test
