// Payloads of the codecs that send every element, compared with their headers' documentation.
#include <gtest/gtest.h>

#include "tests/unit/compression/expected_bytes.h"

namespace psgd {
namespace {

TEST(PayloadDense, Bf16RoundsTiesToEvenAndSaturates) {
  CodecConfig config;
  config.mutable_bf16();
  std::vector<float> residual(5);
  const float tie_down = std::bit_cast<float>(0x3F808000u);  // halfway; the lower number is even
  const float tie_up = std::bit_cast<float>(0x3F818000u);
  EXPECT_EQ(Encode(config, {1, -2, tie_down, tie_up, 3.4e38f}, &residual),
            Expected().Half(0x3F80).Half(0xC000).Half(0x3F80).Half(0x3F82).Half(0x7F7F).bytes());
  EXPECT_EQ(residual[0], 0);
  EXPECT_EQ(residual[2], tie_down - 1);
  EXPECT_GT(residual[4], 0);
}

TEST(PayloadDense, Int8) {
  CodecConfig config;
  config.mutable_int8()->set_rounding(Rounding::NEAREST);
  config.mutable_int8()->set_block(64);
  std::vector<float> gradient(65), residual(65);
  gradient[0] = 127;
  gradient[1] = -126;
  gradient[2] = 0.75f;
  gradient[3] = -0.25f;
  gradient[64] = -254;
  Expected expected;
  expected.Word(64).Coarse(1).Coarse(2).Byte(127).Byte(0x82).Byte(1).Byte(0);
  for (int i = 4; i < 64; ++i) expected.Byte(0);
  EXPECT_EQ(Encode(config, gradient, &residual), expected.Byte(0x81).bytes());
  EXPECT_EQ(residual[2], -0.25f);
  EXPECT_EQ(residual[3], -0.25f);
}

TEST(PayloadDense, Qsgd) {
  CodecConfig config;
  config.mutable_qsgd()->set_rounding(Rounding::NEAREST);
  config.mutable_qsgd()->set_bits(3);
  // The unit is 3 / 3; levels 3 -3 1 0 in codes 6 0 4 3: bits 0 0 0 1, 1 0 0 1, 1 0 1 0.
  EXPECT_EQ(Encode(config, {3, -3, 1.25f, 0}),
            Expected().Word(128).Word(3).Coarse(1).Half(0b1000).Half(0b1001).Half(0b0101).bytes());
}

TEST(PayloadDense, NaturalLeavesPowersOfTwoAsTheyAre) {
  CodecConfig config;
  config.mutable_natural();
  EXPECT_EQ(Encode(config, {1, -2, 0, 0.5f, -4, 1, 1, 1, -1}), Expected()
                                                                   .Byte(127)
                                                                   .Byte(128)
                                                                   .Byte(0)
                                                                   .Byte(126)
                                                                   .Byte(129)
                                                                   .Byte(127)
                                                                   .Byte(127)
                                                                   .Byte(127)
                                                                   .Byte(127)
                                                                   .Byte(0b00010010)
                                                                   .Byte(1)
                                                                   .bytes());
}

TEST(PayloadDense, Sign) {
  CodecConfig config;
  config.mutable_sign();
  std::vector<float> residual(9);
  EXPECT_EQ(Encode(config, {1, -1, 3, 0, -2, -3, 4, 0, 4}, &residual),
            Expected().Float(2).Byte(0b11001101).Byte(1).bytes());
  EXPECT_EQ(residual, (std::vector<float>{-1, 1, 1, -2, 0, -1, 2, -2, 2}));
}

TEST(PayloadDense, SignumFollowsTheMomentum) {
  CodecConfig config;
  config.mutable_signum()->set_momentum(0.5);
  const auto codec = MakeCodec(config).value();
  const auto encoder = codec->NewEncoder(ShapeOf(3));
  const auto step = [&](const std::vector<float>& gradient) {
    std::vector<std::byte> payload;
    encoder->Encode({gradient, {}, {}, 0}, &payload);
    return payload;
  };
  EXPECT_EQ(step({1, -1, 4}), std::vector<std::byte>{std::byte{0b101}});
  // 0.25 - 1, -0.25 + 0.05, 1 - 0.5
  EXPECT_EQ(step({-2, 0.1f, -1}), std::vector<std::byte>{std::byte{0b100}});
  EXPECT_EQ(Decoded(*codec, {std::byte{0b100}}, ShapeOf(3)), (std::vector<float>{-1, -1, 1}));
}

// A bit has no 0. Both signs in turn keep a weight without a gradient where it is.
TEST(PayloadDense, SignumMovesNothingWithoutAGradient) {
  constexpr size_t kElements = 9001;  // beyond a block, and odd
  CodecConfig config;
  config.mutable_signum();
  const auto codec = MakeCodec(config).value();
  const auto encoder = codec->NewEncoder(ShapeOf(kElements));
  std::vector<float> gradient(kElements), moved(kElements);
  gradient[5000] = -1;
  for (uint64_t step = 0; step < 6; ++step) {
    std::vector<std::byte> payload;
    encoder->Encode({gradient, {}, {}, step}, &payload);
    codec->Open(payload, ShapeOf(kElements)).value()->AddBlock(1, moved);
  }
  std::vector<float> expected(kElements);
  expected[5000] = -6;
  EXPECT_EQ(moved, expected);
}

TEST(PayloadDense, BytesOfALargestSlice) {
  std::vector<float> gradient(1u << 20, 1.5f);
  const auto bytes = [&](auto set) {
    CodecConfig config;
    set(config);
    return Encode(config, gradient).size();
  };
  constexpr size_t n = 1u << 20;
  EXPECT_EQ(bytes([](CodecConfig& c) { c.mutable_bf16(); }), 2 * n);
  EXPECT_EQ(bytes([](CodecConfig& c) { c.mutable_int8(); }), 4 + 2 * n / 1024 + n);
  EXPECT_EQ(bytes([](CodecConfig& c) { c.mutable_qsgd(); }), 8 + 2 * n / 128 + n / 2);
  EXPECT_EQ(bytes([](CodecConfig& c) { c.mutable_natural(); }), n + n / 8);
  EXPECT_EQ(bytes([](CodecConfig& c) { c.mutable_sign(); }), 4 + n / 8);
  EXPECT_EQ(bytes([](CodecConfig& c) { c.mutable_signum(); }), n / 8);
}

TEST(PayloadDense, NonCanonicalBytesAreRefused) {
  constexpr auto kNotFinite = absl::StatusCode::kOutOfRange;
  const float nan = std::bit_cast<float>(0x7FC00000u);
  const float inf = std::bit_cast<float>(0x7F800000u);
  const float huge = std::bit_cast<float>(0x7F000000u);  // twice it is infinite
  const std::vector<BadPayload> cases = {
      {"bf16 inf", CODEC_BF16, 1, Expected().Half(0x7F80).bytes(), kNotFinite},
      {"int8 block 65", CODEC_INT8, 1, Expected().Word(65).Coarse(1).Byte(1).bytes()},
      {"int8 level -128", CODEC_INT8, 1, Expected().Word(64).Coarse(1).Byte(0x80).bytes()},
      {"int8 unit nan", CODEC_INT8, 1, Expected().Word(64).Coarse(nan).Byte(1).bytes(), kNotFinite},
      {"int8 unit too large", CODEC_INT8, 1, Expected().Word(64).Coarse(huge).Byte(1).bytes(),
       kNotFinite},
      {"int8 unit negative", CODEC_INT8, 1, Expected().Word(64).Coarse(-1).Byte(1).bytes()},
      {"qsgd of 1 bit", CODEC_QSGD, 1, Expected().Word(64).Word(1).Coarse(1).Half(0).bytes()},
      {"qsgd of 9 bits", CODEC_QSGD, 1, Expected().Word(64).Word(9).Coarse(1).Half(0).bytes()},
      {"qsgd all ones", CODEC_QSGD, 1,
       Expected().Word(64).Word(2).Coarse(1).Half(1).Half(1).bytes()},
      {"qsgd bit after the last", CODEC_QSGD, 1,
       Expected().Word(64).Word(2).Coarse(1).Half(2).Half(0).bytes()},
      {"natural 255", CODEC_NATURAL, 1, Expected().Byte(255).Byte(0).bytes(), kNotFinite},
      {"natural bit after the last", CODEC_NATURAL, 1, Expected().Byte(1).Byte(2).bytes()},
      {"sign inf", CODEC_SIGN, 1, Expected().Float(inf).Byte(1).bytes(), kNotFinite},
      {"sign negative", CODEC_SIGN, 1, Expected().Float(-1).Byte(1).bytes()},
      {"sign bit after the last", CODEC_SIGN, 1, Expected().Float(1).Byte(2).bytes()},
      {"signum bit after the last", CODEC_SIGNUM, 7, Expected().Byte(0x80).bytes()},
      {"signum too short", CODEC_SIGNUM, 9, Expected().Byte(0).bytes()},
  };
  ExpectRefused(cases);
}

}  // namespace
}  // namespace psgd
