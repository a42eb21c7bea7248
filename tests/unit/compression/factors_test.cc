#include "compression/low_rank/factors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compression/payload_bytes.h"
#include "tests/unit/compression/expected_bytes.h"
#include "tests/unit/compression/factors_of.h"

namespace psgd {
namespace {

std::vector<float> Read(PayloadReader& reader, size_t block) {
  std::vector<float> values(reader.elements());
  for (size_t begin = 0; begin < values.size(); begin += block) {
    reader.AddBlock(1, std::span(values).subspan(begin, std::min(block, values.size() - begin)));
  }
  return values;
}

TEST(Factors, PayloadIsAsDocumented) {
  FactorsOf factors(1, 4, 8, 1);
  factors.values = {1, 2, 3, 4, 5, 6, 7, 8, /* delta */ 0, -3, 0, 0};
  const std::vector<std::byte> payload = factors.Payload(factors.Cut({}));
  Expected expected;
  expected.Word(1).Word(8 + 8 * 4).Word(0);
  expected.Word(8).Byte(0).Byte(1).Byte(0).Byte(0);  // all elements
  for (int i = 1; i <= 8; ++i) expected.Float(static_cast<float>(i));
  expected.Word(1).Byte(0).Byte(0).Byte(0).Byte(0).Float(-3).Byte(0b10);  // element 1
  std::vector<uint8_t> bytes;
  for (std::byte b : payload) bytes.push_back(std::to_integer<uint8_t>(b));
  EXPECT_EQ(bytes, expected.bytes());
}

TEST(Factors, GradientsWithoutFactorsTravelAsTheyAre) {
  CodecConfig config;
  config.mutable_factors();
  EXPECT_EQ(Encode(config, {1.5f, -2}), Expected().Word(0).Float(1.5f).Float(-2).bytes());
}

// Any cut and any way of reading give the bits of plain loops.
TEST(Factors, SlicesThatShareAPayloadGetTheirPartOfTheProduct) {
  const auto codec = FactorsCodecOf();
  for (const auto& ends : std::vector<std::vector<size_t>>{{}, {600}, {7, 330, 331, 1500}}) {
    const FactorsOf factors(6, 40, 50, 2);
    const std::vector<SliceShape> shapes = factors.Cut(ends);
    const std::vector<std::byte> payload = factors.Payload(shapes);
    EXPECT_LT(payload.size(), 0.7 * 6 * 90 * 4) << "zeros travel";
    for (size_t block : {1, 37, 2048}) {
      const auto readers = codec->OpenShared(payload, shapes);
      ASSERT_TRUE(readers.ok()) << readers.status();
      ASSERT_EQ(readers->size(), shapes.size());
      for (size_t i = 0; i < shapes.size(); ++i) {
        EXPECT_TRUE((*readers)[i]->without_decay());
        EXPECT_EQ(Read(*(*readers)[i], block), factors.Product(shapes[i])) << i << ", " << block;
      }
    }
  }
}

// The gradients of outputs may be tiny: binary16 alone has no numbers below 6e-8.
TEST(Factors, RoundedToTwoBytesTheProductKeepsElevenBits) {
  for (float size : {1.0f, 1e-9f, 1e-18f, 1e-37f, 1e6f, 1e30f}) {
    FactorsOf factors(6, 40, 50, 2);
    for (size_t i = 0; i < factors.values.size(); ++i) {
      if (i % 90 >= 50) factors.values[i] *= size;
    }
    const std::vector<SliceShape> shapes = factors.Cut({7, 330, 331, 1500});
    const std::vector<std::byte> whole = factors.Payload(shapes);
    const std::vector<std::byte> half = factors.Payload(shapes, ValueCoding::kHalf);
    EXPECT_LT(static_cast<double>(half.size()), 0.6 * static_cast<double>(whole.size()));
    const auto readers = FactorsCodecOf()->OpenShared(half, shapes);
    ASSERT_TRUE(readers.ok()) << readers.status();
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::vector<float> expected = factors.Product(shapes[i]);
      const std::vector<float> actual = Read(*(*readers)[i], 64);
      // No summand is negative, and both of its factors are rounded by a relative 2^-11 at most.
      for (size_t e = 0; e < expected.size(); ++e) {
        ASSERT_NEAR(actual[e], expected[e], expected[e] * 1e-3 + size * 1e-7) << size;
      }
    }
  }
}

TEST(Factors, OfZerosAloneAreSentInFewerBytes) {
  FactorsOf factors(1, 4, 8, 1);
  for (float& value : factors.values) value = 0;
  const std::vector<SliceShape> shapes = factors.Cut({});
  for (const ValueCoding coding : {ValueCoding::kHalf, ValueCoding::kByte}) {
    const std::vector<std::byte> payload = factors.Payload(shapes, coding);
    const auto readers = FactorsCodecOf()->OpenShared(payload, shapes);
    ASSERT_TRUE(readers.ok()) << readers.status();
    EXPECT_EQ(Read(*(*readers)[0], 64), factors.Product(shapes[0]));
  }
}

// The mean over many draws is the product, although both factors are rounded, because they are
// rounded independently. The error of each product stays within the units of its factors.
TEST(Factors, RoundedToBytesTheProductIsExactInTheMean) {
  constexpr size_t kBatch = 6, kTensorRows = 40, kTensorColumns = 50;
  constexpr uint64_t kSteps = 4000;
  for (float size : {1.0f, 1e-18f, 1e15f}) {
    FactorsOf factors(kBatch, kTensorRows, kTensorColumns, 2);
    // Samples have very different sizes: each has its own unit.
    for (size_t n = 0; n < kBatch; ++n) {
      for (size_t i = 0; i < kTensorRows; ++i) {
        factors.values[n * 90 + 50 + i] *= size * std::ldexp(1.0f, static_cast<int>(n));
      }
    }
    const std::vector<SliceShape> shapes = factors.Cut({7, 330, 331, 1500});
    std::vector<double> mean(kTensorRows * kTensorColumns), squares(mean.size());
    for (uint64_t step = 0; step < kSteps; ++step) {
      const std::vector<std::byte> payload =
          factors.Payload(shapes, ValueCoding::kByte, {MakeKey(1, RandomPurpose::kCodec), step});
      if (step == 0) {
        EXPECT_LT(static_cast<double>(payload.size()),
                  0.35 * static_cast<double>(factors.Payload(shapes).size()));
      }
      const auto readers = FactorsCodecOf()->OpenShared(payload, shapes);
      ASSERT_TRUE(readers.ok()) << readers.status();
      for (size_t i = 0; i < shapes.size(); ++i) {
        const std::vector<float> actual = Read(*(*readers)[i], 64);
        for (size_t e = 0; e < actual.size(); ++e) {
          mean[shapes[i].offset + e] += actual[e] / static_cast<double>(kSteps);
          squares[shapes[i].offset + e] +=
              double{actual[e]} * actual[e] / static_cast<double>(kSteps);
        }
      }
    }
    for (size_t e = 0; e < mean.size(); ++e) {
      const double expected = factors.Product(e / kTensorColumns, e % kTensorColumns);
      const double deviation = std::sqrt(std::max(0.0, squares[e] - mean[e] * mean[e]));
      // Of 2000 means the furthest is about 3.5 of their deviations off.
      ASSERT_NEAR(mean[e], expected, 5.5 * deviation / std::sqrt(kSteps) + 1e-6 * expected) << e;
      ASSERT_LE(deviation, 6 * 32 * size * 2 * 4.0 / 127 * 4) << e;
    }
  }
}

// Otherwise a payload of a few bytes could cost a shard a thousand multiplications per element.
TEST(Factors, SamplesThatAddNothingAreLeftOut) {
  constexpr size_t kBatch = 9, kTensorRows = 40, kTensorColumns = 50;
  FactorsOf factors(kBatch, kTensorRows, kTensorColumns, 11);
  factors.values = Gaussian(factors.values.size(), 11);
  for (size_t i = 0; i < factors.values.size(); i += 3) factors.values[i] = -0.0f;
  const auto clear = [&](size_t n, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) factors.values[n * 90 + i] = i % 2 == 0 ? 0.0f : -0.0f;
  };
  for (const size_t n : {0, 3, 4}) clear(n, 0, kTensorColumns);
  for (const size_t n : {4, 6, 8}) clear(n, kTensorColumns, 90);
  static uint64_t most_samples;
  CodecKernels kernels = KernelsFor(CodecBackend::kScalar);
  kernels.low_rank.multiply = [](const float* left, size_t rows, size_t rank, const float* right,
                                 size_t stride, size_t columns, float* out) {
    most_samples = std::max<uint64_t>(most_samples, rank);
    KernelsFor(CodecBackend::kScalar)
        .low_rank.multiply(left, rows, rank, right, stride, columns, out);
  };
  for (const ValueCoding coding : {ValueCoding::kFloat, ValueCoding::kHalf}) {
    most_samples = 0;
    const std::vector<SliceShape> shapes = factors.Cut({7, 330, 331, 1500});
    const std::vector<std::byte> payload = factors.Payload(shapes, coding);
    const auto readers = OpenFactors(payload, shapes, kernels);
    ASSERT_TRUE(readers.ok()) << readers.status();
    for (size_t i = 0; i < shapes.size(); ++i) {
      const std::vector<float> product = Read(*(*readers)[i], 64);
      if (coding == ValueCoding::kFloat) {
        EXPECT_EQ(product, factors.Product(shapes[i]));
      }
    }
    EXPECT_EQ(most_samples, 4u) << "1, 2, 5 and 7";
  }
}

// As in an attack: two numbers that never meet stand for a thousand samples.
TEST(Factors, OfSamplesThatAllAddNothingThereIsNoProduct) {
  FactorsOf factors(100, 300, 400, 1);
  std::ranges::fill(factors.values, 0.0f);
  factors.values[5] = 1;
  factors.values[700 + 400 + 8] = 1;
  const std::vector<SliceShape> shapes = factors.Cut({});
  CodecKernels kernels = KernelsFor(CodecBackend::kScalar);
  kernels.low_rank.multiply = nullptr;
  const auto readers = OpenFactors(factors.Payload(shapes), shapes, kernels);
  ASSERT_TRUE(readers.ok()) << readers.status();
  EXPECT_EQ(Read(*(*readers)[0], 2048), std::vector<float>(300 * 400));
}

TEST(Factors, RowsMayBeLongerThanATile) {
  const FactorsOf factors(1, 3, 40000, 3);
  const std::vector<SliceShape> shapes = factors.Cut({50001});
  const std::vector<std::byte> payload = factors.Payload(shapes);
  const auto readers = FactorsCodecOf()->OpenShared(payload, shapes);
  ASSERT_TRUE(readers.ok()) << readers.status();
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(Read(*(*readers)[i], 2048), factors.Product(shapes[i]));
  }
}

TEST(Factors, PayOnlyWhereTheyAreShorterThanTheProduct) {
  EXPECT_TRUE(FactorsPay(32, 4096, 4096, 1));
  EXPECT_TRUE(FactorsPay(32, 4096, 4096, 100));
  EXPECT_FALSE(FactorsPay(32, 4096, 4096, 200));  // each shard needs the inputs
  EXPECT_FALSE(FactorsPay(32, 10, 4096, 1));
  EXPECT_FALSE(FactorsPay(uint64_t{1} << 40, uint64_t{1} << 30, uint64_t{1} << 30, 1024));
  const FactorsOf many(20, 40, 40, 4);
  EXPECT_TRUE(many.Payload(many.Cut({})).empty());  // 1600 of 1600
  const FactorsOf fewer(19, 40, 40, 4);
  EXPECT_FALSE(fewer.Payload(fewer.Cut({})).empty());
  // A part with few rows does not pay, because it needs all of x.
  EXPECT_TRUE(fewer.Payload({fewer.Cut({400})[0]}).empty());
}

TEST(Factors, OtherCodecsHavePayloadsOfOneSlice) {
  CodecConfig config;
  config.mutable_none();
  const auto codec = MakeCodec(config).value();
  const std::vector<SliceShape> shapes(2, ShapeOf(1));
  const std::vector<std::byte> payload(4);
  EXPECT_TRUE(absl::IsInvalidArgument(codec->OpenShared(payload, shapes).status()));
  EXPECT_TRUE(codec->OpenShared(payload, {shapes.data(), 1}).ok());
}

// X has the columns of one tensor: a slice of a wider tensor would read past its end.
TEST(Factors, APayloadIsOfOneTensor) {
  const FactorsOf factors(2, 40, 30, 5);
  std::vector<SliceShape> shapes = factors.Cut({600});
  const std::vector<std::byte> payload = factors.Payload(shapes);
  ASSERT_TRUE(FactorsCodecOf()->OpenShared(payload, shapes).ok());
  shapes[1].tensor_columns = 4000;
  shapes[1].tensor_rows = 1;
  shapes[1].offset = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(FactorsCodecOf()->OpenShared(payload, shapes).status()));
}

class HostileFactors : public testing::Test {
 protected:
  absl::Status Open(ByteSpan payload) const { return OpenFor(payload, shapes_); }
  absl::Status OpenFor(ByteSpan payload, const std::vector<SliceShape>& shapes) const {
    const std::vector<std::byte> exact(payload.begin(), payload.end());
    const auto readers = codec_->OpenShared(exact, shapes);
    if (!readers.ok()) {
      EXPECT_FALSE(readers.status().message().empty());
      return readers.status();
    }
    for (const auto& reader : *readers) {
      for (float value : Read(*reader, 64)) EXPECT_TRUE(std::isfinite(value));
    }
    return absl::OkStatus();
  }
  std::vector<std::byte> With(size_t at, uint32_t word) const {
    std::vector<std::byte> changed(payload_);
    StoreField(word, changed.data() + at);
    return changed;
  }

  const std::unique_ptr<Codec> codec_ = FactorsCodecOf();
  const FactorsOf factors_{5, 24, 30, 7};
  const std::vector<SliceShape> shapes_ = factors_.Cut({100, 400});
  const std::vector<std::byte> payload_ = factors_.Payload(shapes_);
};

TEST_F(HostileFactors, OtherLengthsAreRefused) {
  ASSERT_TRUE(Open(payload_).ok());
  for (size_t size = 0; size < payload_.size(); ++size) {
    ASSERT_TRUE(absl::IsInvalidArgument(Open(ByteSpan(payload_).first(size)))) << size;
  }
  std::vector<std::byte> longer(payload_);
  longer.resize(payload_.size() + 4);
  EXPECT_TRUE(absl::IsInvalidArgument(Open(longer)));
}

TEST_F(HostileFactors, BatchesThatDoNotPayOrDoNotFitAreRefused) {
  for (uint32_t batch : {0u, 4u, 100u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Open(With(0, batch)))) << batch;
  }
  for (uint32_t bytes : {0u, 8u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Open(With(4, bytes)))) << bytes;
  }
}

TEST_F(HostileFactors, PowersOfTwoThatAreNoFloatsAreRefused) {
  const auto open = [&](int right, int left) {
    return Open(
        With(8, (static_cast<uint32_t>(left) << 16) | (static_cast<uint32_t>(right) & 0xFFFF)));
  };
  EXPECT_TRUE(open(126, -126).ok());
  for (int shift : {127, -127, 32767, -32768}) {
    EXPECT_TRUE(absl::IsInvalidArgument(open(shift, 0))) << shift;
    EXPECT_TRUE(absl::IsInvalidArgument(open(0, shift))) << shift;
  }
}

TEST_F(HostileFactors, OtherSlicesAreRefused) {
  EXPECT_FALSE(OpenFor(payload_, {}).ok());
  EXPECT_FALSE(OpenFor(payload_, {shapes_[0], shapes_[1]}).ok());
  EXPECT_FALSE(OpenFor(payload_, {ShapeOf(720)}).ok());
  EXPECT_FALSE(OpenFor(payload_, {MatrixShape(24, 31)}).ok());
}

TEST_F(HostileFactors, ValuesThatAreNotFiniteAreRefused) {
  for (const ValueCoding coding : {ValueCoding::kFloat, ValueCoding::kHalf, ValueCoding::kByte}) {
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      for (const size_t at : {3, 33}) {  // of x, and of delta
        FactorsOf factors = factors_;
        factors.values[at] = bad;
        EXPECT_TRUE(absl::IsOutOfRange(Open(factors.Payload(shapes_, coding)))) << bad << at;
      }
    }
  }
  FactorsOf factors = factors_;
  for (float& value : factors.values) value *= 1e25f;
  EXPECT_TRUE(absl::IsOutOfRange(Open(factors.Payload(shapes_)))) << "their product is infinite";
}

TEST_F(HostileFactors, FlippedBitsAreRefusedOrDecodeToNumbers) {
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 8);
  for (const auto& sound : {payload_, factors_.Payload(shapes_, ValueCoding::kByte)}) {
    for (int round = 0; round < 3000; ++round) {
      std::vector<std::byte> damaged(sound);
      const auto size = static_cast<uint32_t>(sound.size());
      const size_t at = stream.NextBelow(stream.NextBelow(2) == 0 ? 24 : size);
      damaged[at] ^= static_cast<std::byte>(1u << stream.NextBelow(8));
      (void)Open(damaged);
    }
  }
}

TEST_F(HostileFactors, UnitsAndLevelsThatCannotBeAreRefused) {
  const std::vector<std::byte> sound = factors_.Payload(shapes_, ValueCoding::kByte);
  ASSERT_TRUE(Open(sound).ok());
  const auto with = [&](size_t from_end, uint16_t unit) {
    std::vector<std::byte> damaged(sound);
    StoreField(unit, damaged.data() + damaged.size() - from_end);
    return Open(damaged);
  };
  EXPECT_TRUE(absl::IsOutOfRange(with(2, 0x7F80))) << "infinite";
  EXPECT_TRUE(absl::IsOutOfRange(with(4, 0x7FC0))) << "no number";
  EXPECT_TRUE(absl::IsInvalidArgument(with(2, 0xBF80))) << "negative";
  EXPECT_TRUE(with(2, 0).ok());
  std::vector<std::byte> damaged(sound);
  damaged[20] = std::byte{0x80};  // the first level of x
  EXPECT_TRUE(absl::IsInvalidArgument(Open(damaged)));
  EXPECT_FALSE(Open({sound.begin(), sound.end() - 1}).ok());
  EXPECT_FALSE(Open({sound.begin(), sound.begin() + 30}).ok());
  // No other codec has values of one byte.
  CodecConfig topk;
  topk.mutable_topk();
  std::vector<std::byte> entries(8 + 4);
  StoreField(uint32_t{4}, entries.data());
  entries[5] = std::byte{1};
  entries[6] = std::byte{3};
  EXPECT_TRUE(absl::IsInvalidArgument(MakeCodec(topk).value()->Open(entries, ShapeOf(4)).status()));
}

// Least squares with a batch of four samples per step.
TEST(Factors, DescentOnTheirProductsReachesTheOptimum) {
  constexpr size_t kWidth = 16;
  const auto codec = FactorsCodecOf();
  const std::vector<float> optimum = Gaussian(kWidth * kWidth, 9);
  std::vector<float> weights(kWidth * kWidth);
  const double start = SquaredNorm(optimum);
  for (uint64_t step = 0; step < 2000; ++step) {
    FactorsOf factors(4, kWidth, kWidth, 100 + step);
    factors.values = Gaussian(factors.values.size(), 100 + step);
    for (size_t n = 0; n < 4; ++n) {
      float* const x = factors.values.data() + n * 2 * kWidth;
      for (size_t row = 0; row < kWidth; ++row) {
        float error = 0;
        for (size_t c = 0; c < kWidth; ++c) {
          error += (weights[row * kWidth + c] - optimum[row * kWidth + c]) * x[c];
        }
        x[kWidth + row] = error / 4;
      }
    }
    const std::vector<std::byte> payload = factors.Payload(factors.Cut({}));
    codec->Open(payload, MatrixShape(kWidth, kWidth)).value()->AddBlock(-0.02f, weights);
  }
  for (size_t i = 0; i < weights.size(); ++i) weights[i] -= optimum[i];
  EXPECT_LT(SquaredNorm(weights), 1e-6 * start);
}

}  // namespace
}  // namespace psgd
