#include "compression/sparse/rice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/philox.h"

namespace psgd {
namespace {

std::vector<std::byte> Written(const std::vector<uint32_t>& indices, const RiceShape& shape) {
  std::vector<std::byte> bytes((shape.total_bits + 7) / 8);
  WriteRice(indices, shape, bytes.data());
  return bytes;
}

void ExpectReadBack(const std::vector<uint32_t>& indices, const RiceShape& shape) {
  const std::vector<std::byte> bytes = Written(indices, shape);
  RiceReader reader(bytes, shape.low_bits);
  for (uint32_t index : indices) ASSERT_EQ(reader.Next(), index);
  EXPECT_FALSE(reader.Overrun());
  EXPECT_TRUE(reader.AtCleanEnd());
}

TEST(Rice, KnownBits) {
  // Gaps 0, 2, 5 with one low bit: "1 0", "01 0", "001 1" from the lowest bit up.
  const std::vector<uint32_t> indices = {0, 3, 9};
  const RiceShape shape = {1, 2 + 3 + 4};
  EXPECT_EQ(Written(indices, shape),
            (std::vector<std::byte>{std::byte{0b10001001}, std::byte{0b1}}));
  ExpectReadBack(indices, shape);
}

TEST(Rice, ExtremesComeBack) {
  for (uint32_t low : {0u, 1u, 7u, 20u, 31u}) {
    const std::vector<uint32_t> indices = {0, 1, 2, 1000, 1001, 50000};
    uint64_t bits = indices.size() * (1 + low);
    uint32_t base = 0;
    for (uint32_t index : indices) {
      bits += (index - base) >> low;
      base = index + 1;
    }
    ExpectReadBack(indices, {low, bits});
  }
  ExpectReadBack({}, {});
  ExpectReadBack({0xFFFFFFFEu}, ChooseRice(std::vector<uint32_t>{0xFFFFFFFEu}));
}

TEST(Rice, RandomIndicesTakeHardlyMoreThanTheirEntropy) {
  for (double density : {0.5, 0.1, 0.01, 0.001}) {
    RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 0);
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < 400000; ++i) {
      if (stream.NextUnit() < density) indices.push_back(i);
    }
    const RiceShape shape = ChooseRice(indices);
    ExpectReadBack(indices, shape);
    const double entropy =
        -(density * std::log2(density) + (1 - density) * std::log2(1 - density)) / density;
    const double bits = static_cast<double>(shape.total_bits) / static_cast<double>(indices.size());
    EXPECT_LT(bits, 1.05 * entropy) << density;
    EXPECT_GT(bits, 0.98 * entropy) << density;
  }
}

TEST(Rice, ReadingStaysWithinItsBytes) {
  const std::vector<std::byte> zeros(100);
  RiceReader reader(zeros, 5);
  reader.Next();
  EXPECT_TRUE(reader.Overrun());
  const std::vector<std::byte> trailing = {std::byte{0b00000001}, std::byte{0}};
  RiceReader early(trailing, 0);
  EXPECT_EQ(early.Next(), 0u);
  EXPECT_FALSE(early.AtCleanEnd());
}

}  // namespace
}  // namespace psgd
