// Payloads byte by byte, compared with the documentation in the codecs' headers.
#include <gtest/gtest.h>

#include <bit>

#include "tests/unit/compression/expected_bytes.h"

namespace psgd {
namespace {

CodecConfig Config(CodecId id) {
  CodecConfig config;
  if (id == CODEC_NONE) config.mutable_none();
  if (id == CODEC_FP16) config.mutable_fp16();
  if (id == CODEC_TOPK) config.mutable_topk();
  if (id == CODEC_ONEBIT) config.mutable_onebit();
  if (id == CODEC_TERNARY) config.mutable_ternary();
  return config;
}

TEST(Payload, None) {
  EXPECT_EQ(Encode(Config(CODEC_NONE), {1, -2.5f}), Expected().Float(1).Float(-2.5f).bytes());
}

TEST(Payload, Fp16) {
  EXPECT_EQ(Encode(Config(CODEC_FP16), {1, -2}),
            Expected().Byte(0x00).Byte(0x3C).Byte(0x00).Byte(0xC0).bytes());
}

TEST(Payload, Topk) {
  CodecConfig config = Config(CODEC_TOPK);
  config.mutable_topk()->set_density(0.2);
  std::vector<float> residual(10);
  // Entries 3 and 7: gaps 3 and 3; one low bit: "01 1" twice.
  EXPECT_EQ(Encode(config, {0, 1, 0, -5, 0.5f, 0, 0, 4, 1, 0}, &residual),
            Expected().Word(2).Word(1).Float(-5).Float(4).Byte(0b110110).bytes());
  EXPECT_EQ(residual, (std::vector<float>{0, 1, 0, 0, 0.5f, 0, 0, 0, 1, 0}));
}

TEST(Payload, Onebit) {
  std::vector<float> residual(10);
  constexpr float kHigh = 1.3359375f;  // 8 / 6 in 8 significant bits
  EXPECT_EQ(Encode(Config(CODEC_ONEBIT), {1, -1, 3, 0, -2, -3, 4, 0, 0, -2}, &residual),
            Expected().Word(128).Pair(kHigh, -2).Byte(0b11001101).Byte(0b01).bytes());
  EXPECT_EQ(residual[0], 1 - kHigh);
  EXPECT_EQ(residual[1], 1);
}

TEST(Payload, TernaryOfOneMagnitude) {
  CodecConfig config = Config(CODEC_TERNARY);
  config.mutable_ternary()->set_clip(0);
  // Every non-zero element reaches the limit, so each is drawn. Seven elements: two bytes, element
  // e is digit e / 2 of byte e % 2; digits 0 1 2 for - 0 +.
  const uint8_t first = 2 + 3 * 1 + 9 * 0 + 27 * 2 + 81 * 1;   // elements 0 2 4 6, padding
  const uint8_t second = 0 + 3 * 1 + 9 * 2 + 27 * 1 + 81 * 1;  // elements 1 3 5, padding
  EXPECT_EQ(Encode(config, {3, -3, 0, 0, -3, 3, 3}),
            Expected().Float(3).Byte(first).Byte(second).bytes());
}

TEST(Payload, RatiosOfALargestSlice) {
  std::vector<float> gradient(1u << 20);
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>((i * 2654435761u) % 100003) - 50001;
  }
  const auto ratio = [&](CodecId id) {
    std::vector<float> residual(gradient.size());
    return 4.0 * static_cast<double>(gradient.size()) /
           static_cast<double>(Encode(Config(id), gradient, &residual).size());
  };
  EXPECT_EQ(ratio(CODEC_NONE), 1);
  EXPECT_EQ(ratio(CODEC_FP16), 2);
  EXPECT_GE(ratio(CODEC_TOPK), 78);
  EXPECT_GE(ratio(CODEC_ONEBIT), 25.5);
  EXPECT_GE(ratio(CODEC_TERNARY), 19.9);
}

TEST(Payload, Fp16SaturatesAndKeepsTheRest) {
  std::vector<float> residual(2);
  EXPECT_EQ(Encode(Config(CODEC_FP16), {70000, -1e9f}, &residual),
            Expected().Byte(0xFF).Byte(0x7B).Byte(0xFF).Byte(0xFB).bytes());
  EXPECT_EQ(residual, (std::vector<float>{70000 - 65504, -1e9f + 65504}));
}

TEST(Payload, NonCanonicalBytesAreRefused) {
  constexpr auto kNotFinite = absl::StatusCode::kOutOfRange;
  const float nan = std::bit_cast<float>(0x7FC00000u);
  const float inf = std::bit_cast<float>(0x7F800000u);
  const std::vector<BadPayload> cases = {
      {"none nan", CODEC_NONE, 1, Expected().Float(nan).bytes(), kNotFinite},
      {"half inf", CODEC_FP16, 1, Expected().Byte(0).Byte(0x7C).bytes(), kNotFinite},
      {"count above elements", CODEC_TOPK, 1,
       Expected().Word(2).Word(0).Float(1).Float(1).Byte(3).bytes()},
      {"index out of range", CODEC_TOPK, 3, Expected().Word(1).Word(0).Float(1).Byte(8).bytes()},
      {"bits after the last index", CODEC_TOPK, 3,
       Expected().Word(1).Word(0).Float(1).Byte(3).bytes()},
      {"byte after the last index", CODEC_TOPK, 3,
       Expected().Word(1).Word(0).Float(1).Byte(1).Byte(0).bytes()},
      {"no index bits", CODEC_TOPK, 3, Expected().Word(1).Word(0).Float(1).bytes()},
      {"only zeros for an index", CODEC_TOPK, 3,
       Expected().Word(1).Word(0).Float(1).Byte(0).bytes()},
      {"low bits 32", CODEC_TOPK, 3, Expected().Word(1).Word(32).Float(1).Byte(1).bytes()},
      {"low bits of nothing", CODEC_TOPK, 3, Expected().Word(0).Word(1).bytes()},
      {"huge count", CODEC_TOPK, 0xFFFFFFFF, Expected().Word(0xFFFFFFFF).Word(0).bytes()},
      {"value inf", CODEC_TOPK, 3, Expected().Word(1).Word(0).Float(inf).Byte(1).bytes(),
       kNotFinite},
      {"block 0", CODEC_ONEBIT, 1, Expected().Word(0).Pair(1, -1).Byte(1).bytes()},
      {"block 65", CODEC_ONEBIT, 1, Expected().Word(65).Pair(1, -1).Byte(1).bytes()},
      {"bit after the last", CODEC_ONEBIT, 1, Expected().Word(64).Pair(1, -1).Byte(3).bytes()},
      {"high below 0", CODEC_ONEBIT, 1, Expected().Word(64).Pair(-1, -1).Byte(1).bytes()},
      {"low above 0", CODEC_ONEBIT, 1, Expected().Word(64).Pair(1, 1).Byte(1).bytes()},
      {"low nan", CODEC_ONEBIT, 1, Expected().Word(64).Pair(1, nan).Byte(1).bytes(), kNotFinite},
      {"scale inf", CODEC_TERNARY, 1, Expected().Float(inf).Byte(121).bytes(), kNotFinite},
      {"scale negative", CODEC_TERNARY, 1, Expected().Float(-1).Byte(121).bytes()},
      {"byte 243", CODEC_TERNARY, 5, Expected().Float(1).Byte(243).bytes()},
      {"padding not 0", CODEC_TERNARY, 4, Expected().Float(1).Byte(40).bytes()},
  };
  ExpectRefused(cases);
}

TEST(MakeCodec, RefusesOptionsThatMakeNoSense) {
  const auto code = [](const CodecConfig& config) { return MakeCodec(config).status().code(); };
  for (double density : {0.0, -1.0, 1.5}) {
    CodecConfig config;
    config.mutable_topk()->set_density(density);
    EXPECT_EQ(code(config), absl::StatusCode::kInvalidArgument) << density;
  }
  for (int block : {0, -64, 63, 100, 2097152}) {
    CodecConfig config;
    config.mutable_onebit()->set_block(block);
    EXPECT_EQ(code(config), absl::StatusCode::kInvalidArgument) << block;
  }
  CodecConfig config;
  config.mutable_ternary()->set_clip(-1);
  EXPECT_EQ(code(config), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MakeCodec(CodecConfig()).value()->id(), CODEC_NONE);
}

}  // namespace
}  // namespace psgd
