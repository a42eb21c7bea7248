// Payloads of the codecs that send some elements, compared with their headers' documentation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "tests/unit/compression/expected_bytes.h"

namespace psgd {
namespace {

const std::vector<float> kGradient = {0, 1, 0, -5, 0.5f, 0, 0, 4, 1, 0};

CodecConfig Topk(double density, TopkCodec::Values values) {
  CodecConfig config;
  config.mutable_topk()->set_density(density);
  config.mutable_topk()->set_values(values);
  return config;
}

// Entries 3 and 7: gaps 3 and 3; one low bit: "01 1" twice.
constexpr uint8_t kThreeAndSeven = 0b110110;

TEST(PayloadSparse, TopkWithHalves) {
  std::vector<float> gradient = kGradient, residual(10);
  gradient[7] = 4.001f;  // binary16 rounds it to 4
  EXPECT_EQ(Encode(Topk(0.2, TopkCodec::FP16), gradient, &residual), Expected()
                                                                         .Word(2)
                                                                         .Byte(1)
                                                                         .Byte(0)
                                                                         .Byte(1)
                                                                         .Byte(0)
                                                                         .Half(0xC500)
                                                                         .Half(0x4400)
                                                                         .Byte(kThreeAndSeven)
                                                                         .bytes());
  EXPECT_EQ(residual[7], 4.001f - 4);
  EXPECT_EQ(residual[8], 1);
}

TEST(PayloadSparse, TopkWithSigns) {
  std::vector<float> residual(10);
  EXPECT_EQ(Encode(Topk(0.2, TopkCodec::TERNARY), kGradient, &residual), Expected()
                                                                             .Word(2)
                                                                             .Byte(1)
                                                                             .Byte(0)
                                                                             .Byte(2)
                                                                             .Byte(0)
                                                                             .Float(4.5f)
                                                                             .Byte(0b10)
                                                                             .Byte(kThreeAndSeven)
                                                                             .bytes());
  EXPECT_EQ(residual, (std::vector<float>{0, 1, 0, -0.5f, 0.5f, 0, 0, -0.5f, 1, 0}));
}

TEST(PayloadSparse, TopkSendsAllWhereABitmapCostsMoreThanTheRest) {
  // 31 of 32 values and 4 bytes of bitmap take no less than 32 values.
  std::vector<float> gradient(32);
  for (size_t i = 0; i < 32; ++i) gradient[i] = static_cast<float>(i);
  const auto all = Encode(Topk(0.97, TopkCodec::FP32), gradient);
  EXPECT_EQ(all.size(), 8 + 4 * 32u);
  EXPECT_EQ(all[5], 1);
  EXPECT_EQ(Encode(Topk(0.9, TopkCodec::FP32), gradient).size(), 8 + 4 * 29 + 4u);
}

TEST(PayloadSparse, ThresholdSendsTauOnce) {
  CodecConfig config;
  config.mutable_threshold()->set_tau(1);
  std::vector<float> residual(10);
  // Entries 1, 3, 7, 8: without low bits, the codes are a bitmap.
  EXPECT_EQ(Encode(config, kGradient, &residual), Expected()
                                                      .Word(4)
                                                      .Byte(0)
                                                      .Byte(0)
                                                      .Byte(2)
                                                      .Byte(0)
                                                      .Float(1)
                                                      .Byte(0b1101)
                                                      .Byte(0b10001010)
                                                      .Byte(1)
                                                      .bytes());
  EXPECT_EQ(residual, (std::vector<float>{0, 0, 0, -4, 0.5f, 0, 0, 3, 0, 0}));
}

TEST(PayloadSparse, RandomkSendsItsKeyAndNoIndices) {
  CodecConfig config;
  config.mutable_randomk()->set_density(0.2);
  const auto codec = MakeCodec(config).value();
  std::vector<float> residual(10);
  std::vector<std::byte> payload;
  codec->NewEncoder(ShapeOf(10))->Encode({kGradient, residual, {7, 9}, 5}, &payload);
  ASSERT_EQ(payload.size(), 20 + 2 * 4u);
  Expected header;
  header.Word(2).Word(7).Word(9).Word(5).Word(0);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(std::to_integer<uint8_t>(payload[i]), header.bytes()[i]) << i;
  }
  // One of the first five elements and one of the others; with the residual they make the gradient.
  uint32_t indices[3];
  float values[3];
  ASSERT_EQ(codec->Open(payload, ShapeOf(10)).value()->NextEntries(indices, values), 2u);
  EXPECT_LT(indices[0], 5u);
  EXPECT_GE(indices[1], 5u);
  for (int e = 0; e < 2; ++e) {
    EXPECT_EQ(values[e], kGradient[indices[e]]);
    EXPECT_EQ(residual[indices[e]], 0);
    residual[indices[e]] = values[e];
  }
  EXPECT_EQ(residual, kGradient);
}

TEST(PayloadSparse, Blocks) {
  CodecConfig config;
  config.mutable_blocks()->set_block(4);
  config.mutable_blocks()->set_density(0.67);
  std::vector<float> residual(10);
  // Blocks 0 and 1 of 3 have the largest norms. The last block, of two elements, is not sent.
  EXPECT_EQ(Encode(config, kGradient, &residual), Expected()
                                                      .Word(2)
                                                      .Word(0)
                                                      .Word(4)
                                                      .Word(8)
                                                      .Float(0)
                                                      .Float(1)
                                                      .Float(0)
                                                      .Float(-5)
                                                      .Float(0.5f)
                                                      .Float(0)
                                                      .Float(0)
                                                      .Float(4)
                                                      .Byte(0b11)
                                                      .bytes());
  EXPECT_EQ(residual, (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 1, 0}));
  // A block of zeros is not sent, though there is room for it.
  config.mutable_blocks()->set_density(1);
  EXPECT_EQ(Encode(config, {0, 0, 0, 0, 2, 0}),
            Expected().Word(1).Word(0).Word(4).Word(2).Float(2).Float(0).Byte(0b10).bytes());
}

TEST(PayloadSparse, Chunked) {
  CodecConfig config;
  config.mutable_chunked()->set_chunk(64);
  config.mutable_chunked()->set_keep(13);
  std::vector<float> residual(10);
  // Two of ten elements, as thirteen of 64. Both levels fit: code 3 is -5, code 0 is 4.
  EXPECT_EQ(Encode(config, kGradient, &residual), Expected()
                                                      .Word(2)
                                                      .Byte(1)
                                                      .Byte(2)
                                                      .Half(63)
                                                      .Coarse(4)
                                                      .Coarse(5)
                                                      .Half(0b01)
                                                      .Half(0b01)
                                                      .Byte(kThreeAndSeven)
                                                      .bytes());
  EXPECT_EQ(residual, (std::vector<float>{0, 1, 0, 0, 0.5f, 0, 0, 0, 1, 0}));
  // Entries 1, 3, 7: levels of 1 and of the mean of 4 and 5.
  config.mutable_chunked()->set_keep(19);
  residual.assign(10, 0);
  EXPECT_EQ(Encode(config, kGradient, &residual), Expected()
                                                      .Word(3)
                                                      .Byte(1)
                                                      .Byte(2)
                                                      .Half(63)
                                                      .Coarse(1)
                                                      .Coarse(4.5f)
                                                      .Half(0b110)
                                                      .Half(0b010)
                                                      .Byte(0b1101111)
                                                      .bytes());
  EXPECT_EQ(residual, (std::vector<float>{0, 0, 0, -0.5f, 0.5f, 0, 0, -0.5f, 1, 0}));
}

TEST(PayloadSparse, ChunkedSendsNoZeros) {
  CodecConfig config;
  config.mutable_chunked()->set_chunk(64);
  config.mutable_chunked()->set_keep(64);
  std::vector<float> gradient(130);
  gradient[70] = -2;
  // The second of three chunks has the only value.
  EXPECT_EQ(Encode(config, gradient), Expected()
                                          .Word(1)
                                          .Byte(5)
                                          .Byte(2)
                                          .Half(63)
                                          .Word(0)
                                          .Coarse(2)
                                          .Coarse(2)
                                          .Word(0)
                                          .Half(0)
                                          .Half(1)
                                          .Byte(0b110100)
                                          .bytes());
}

// The first chunk's threshold is a bad guess for the next.
TEST(PayloadSparse, ChunkedTakesTheLargestOfChunksOfAnySize) {
  CodecConfig config;
  config.mutable_chunked()->set_bits(8);
  const auto codec = MakeCodec(config).value();
  const auto encoder = codec->NewEncoder(ShapeOf(4 * 4096));
  std::vector<float> gradient = Gaussian(4 * 4096, 11);
  for (int step = 0; step < 2; ++step) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      const int exponent = i / 4096 % 2 == 0 ? 20 : -20;
      gradient[i] = std::ldexp(gradient[i], step == 0 ? exponent : -2 * exponent);
    }
    std::vector<std::byte> payload;
    encoder->Encode({gradient, {}, {}, 0}, &payload);
    std::vector<uint32_t> indices(1000);
    std::vector<float> values(1000);
    const auto reader = codec->Open(payload, ShapeOf(gradient.size())).value();
    ASSERT_EQ(reader->NextEntries(indices, values), 256u);
    for (size_t chunk = 0; chunk < 4; ++chunk) {
      const auto part = std::span(gradient).subspan(chunk * 4096, 4096);
      std::vector<uint32_t> order(4096);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, std::ranges::greater(),
                               [&](uint32_t i) { return std::fabs(part[i]); });
      std::ranges::sort(order.begin(), order.begin() + 64);
      for (size_t i = 0; i < 64; ++i) {
        ASSERT_EQ(indices[chunk * 64 + i], chunk * 4096 + order[i]);
        EXPECT_NEAR(values[chunk * 64 + i] / part[order[i]], 1, 0.01);
      }
    }
  }
}

TEST(PayloadSparse, PowersgdSendsHalvesWhereMatricesAreLonger) {
  CodecConfig config;
  config.mutable_powersgd();
  EXPECT_EQ(Encode(config, {1, -2}), Expected().Word(0).Half(0x3C00).Half(0xC000).bytes());
}

TEST(PayloadSparse, NonCanonicalBytesAreRefused) {
  constexpr auto kNotFinite = absl::StatusCode::kOutOfRange;
  const float inf = std::bit_cast<float>(0x7F800000u);
  const auto sparse = [](uint32_t count, uint8_t low, uint8_t index, uint8_t value, uint8_t zero) {
    return Expected().Word(count).Byte(low).Byte(index).Byte(value).Byte(zero);
  };
  const auto blocks = [](uint32_t count, uint32_t low, uint32_t block, uint32_t sent) {
    return Expected().Word(count).Word(low).Word(block).Word(sent);
  };
  const auto chunked = [](uint32_t count, uint8_t low_bits, uint8_t bits, uint16_t last, float low,
                          float high) {
    return Expected().Word(count).Byte(low_bits).Byte(bits).Half(last).Coarse(low).Coarse(high);
  };
  const std::vector<BadPayload> cases = {
      {"index coding 2", CODEC_TOPK, 1, sparse(1, 0, 2, 0, 0).Float(1).bytes()},
      {"value coding 3", CODEC_TOPK, 1, sparse(1, 0, 0, 3, 0).Float(1).Byte(1).bytes()},
      {"last byte", CODEC_TOPK, 1, sparse(1, 0, 0, 0, 1).Float(1).Byte(1).bytes()},
      {"all but not all", CODEC_DGC, 2, sparse(1, 0, 1, 0, 0).Float(1).bytes()},
      {"all with low bits", CODEC_DGC, 1, sparse(1, 1, 1, 0, 0).Float(1).bytes()},
      {"all and more", CODEC_DGC, 1, sparse(1, 0, 1, 0, 0).Float(1).Byte(1).bytes()},
      {"half inf", CODEC_TOPK, 1, sparse(1, 0, 1, 1, 0).Half(0x7C00).bytes(), kNotFinite},
      {"magnitude inf", CODEC_THRESHOLD, 1, sparse(1, 0, 1, 2, 0).Float(inf).Byte(1).bytes(),
       kNotFinite},
      {"magnitude negative", CODEC_THRESHOLD, 1, sparse(1, 0, 1, 2, 0).Float(-1).Byte(1).bytes()},
      {"sign after the last", CODEC_THRESHOLD, 1, sparse(1, 0, 1, 2, 0).Float(1).Byte(3).bytes()},
      {"no magnitude", CODEC_THRESHOLD, 1, sparse(0, 0, 0, 2, 0).bytes()},
      {"randomk of none", CODEC_RANDOMK, 1,
       Expected().Word(0).Word(0).Word(0).Word(0).Word(0).bytes()},
      {"randomk of more", CODEC_RANDOMK, 1,
       Expected().Word(2).Word(0).Word(0).Word(0).Word(0).Float(1).Float(1).bytes()},
      {"randomk inf", CODEC_RANDOMK, 1,
       Expected().Word(1).Word(0).Word(0).Word(0).Word(0).Float(inf).bytes(), kNotFinite},
      {"block of 0", CODEC_BLOCKS, 1, blocks(1, 0, 0, 1).Float(1).Byte(1).bytes()},
      {"block beyond", CODEC_BLOCKS, 4, blocks(1, 0, 2, 2).Float(1).Float(1).Byte(4).bytes()},
      {"blocks with a value less", CODEC_BLOCKS, 4, blocks(1, 0, 2, 1).Float(1).Byte(1).bytes()},
      {"more values than elements", CODEC_BLOCKS, 1,
       blocks(1, 0, 2, 2).Float(1).Float(1).Byte(1).bytes()},
      {"bits after the last block", CODEC_BLOCKS, 4,
       blocks(1, 0, 2, 2).Float(1).Float(1).Byte(3).bytes()},
      {"block inf", CODEC_BLOCKS, 1, blocks(1, 0, 2, 1).Float(inf).Byte(1).bytes(), kNotFinite},
      {"chunk of 63", CODEC_CHUNKED, 4, chunked(1, 0, 2, 62, 1, 2).Half(0).Half(0).Byte(1).bytes()},
      {"chunks of one bit", CODEC_CHUNKED, 4, chunked(1, 0, 1, 63, 1, 2).Half(0).Byte(1).bytes()},
      {"chunks of nine bits", CODEC_CHUNKED, 4, chunked(0, 0, 9, 63, 1, 2).bytes()},
      {"chunk with low bits alone", CODEC_CHUNKED, 4, chunked(0, 1, 2, 63, 0, 0).bytes()},
      {"chunk of more", CODEC_CHUNKED, 1,
       chunked(2, 0, 2, 63, 1, 2).Half(0).Half(0).Byte(3).bytes()},
      {"chunk without codes", CODEC_CHUNKED, 4, chunked(1, 0, 2, 63, 1, 2).Half(0).bytes()},
      {"level inf", CODEC_CHUNKED, 4, chunked(1, 0, 2, 63, 1, inf).Half(0).Half(0).Byte(1).bytes(),
       kNotFinite},
      {"level negative", CODEC_CHUNKED, 4,
       chunked(1, 0, 2, 63, -1, 2).Half(0).Half(0).Byte(1).bytes()},
      {"levels descend", CODEC_CHUNKED, 4,
       chunked(1, 0, 2, 63, 2, 1).Half(0).Half(0).Byte(1).bytes()},
      {"code after the last", CODEC_CHUNKED, 4,
       chunked(1, 0, 2, 63, 1, 2).Half(0).Half(2).Byte(1).bytes()},
      {"chunk's index beyond", CODEC_CHUNKED, 4,
       chunked(1, 0, 2, 63, 1, 2).Half(0).Half(0).Byte(16).bytes()},
      {"chunk's bits after the last", CODEC_CHUNKED, 4,
       chunked(1, 0, 2, 63, 1, 2).Half(0).Half(0).Byte(3).bytes()},
      {"chunk's codes longer than any", CODEC_CHUNKED, 1,
       chunked(1, 31, 2, 63, 1, 2)
           .Half(0)
           .Half(0)
           .Word(1)
           .Word(0)
           .Word(0)
           .Word(0)
           .Word(0)
           .Word(0)
           .Word(0)
           .bytes()},
      {"rank without a matrix", CODEC_POWERSGD, 1, Expected().Word(1).Float(1).Float(1).bytes()},
      {"rank 2^31", CODEC_POWERSGD, 0xFFFFFFFF, Expected().Word(1u << 31).Float(1).bytes()},
  };
  ExpectRefused(cases);
}

}  // namespace
}  // namespace psgd
