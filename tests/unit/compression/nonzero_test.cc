#include "compression/sparse/nonzero.h"

#include <gtest/gtest.h>

#include "compression/codec.h"

namespace psgd {
namespace {

std::vector<float> Decoded(const std::vector<std::byte>& payload, uint32_t elements) {
  const CodecTable codecs;
  SliceShape shape;
  shape.elements = elements;
  auto reader = codecs.Find(CODEC_TOPK)->Open(payload, shape);
  EXPECT_TRUE(reader.ok()) << reader.status();
  std::vector<float> values(elements);
  (*reader)->AddBlock(1, values);
  return values;
}

TEST(Nonzero, LosesNothingAndSendsNoZeros) {
  NonzeroEncoder encoder;
  std::vector<float> gradient(10000);
  for (size_t i = 0; i < gradient.size(); i += 100) gradient[i] = 0.5f - static_cast<float>(i);
  std::vector<std::byte> payload;
  ASSERT_TRUE(encoder.Encode(gradient, &payload));
  EXPECT_LT(payload.size(), 100 * 5 + 16u);
  EXPECT_EQ(Decoded(payload, 10000), gradient);
}

TEST(Nonzero, OfZerosIsAHeader) {
  NonzeroEncoder encoder;
  std::vector<std::byte> payload;
  ASSERT_TRUE(encoder.Encode(std::vector<float>(77), &payload));
  EXPECT_EQ(payload.size(), 8u);
  EXPECT_EQ(Decoded(payload, 77), std::vector<float>(77));
}

TEST(Nonzero, LeavesDenseGradientsToOthers) {
  NonzeroEncoder encoder;
  std::vector<std::byte> payload;
  EXPECT_FALSE(encoder.Encode(std::vector<float>(77, 1.0f), &payload));
  EXPECT_TRUE(payload.empty());
  EXPECT_FALSE(encoder.Encode(std::vector<float>(1, 1.0f), &payload));
}

}  // namespace
}  // namespace psgd
