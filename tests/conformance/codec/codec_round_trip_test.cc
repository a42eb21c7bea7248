// Guarantees of every codec to its callers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compression/lossless.h"
#include "tests/conformance/codec/codec_cases.h"

namespace psgd::codec_test {
namespace {

class CodecRoundTrip : public testing::TestWithParam<CodecCase> {
 protected:
  const std::unique_ptr<Codec> codec_ = Make(GetParam(), CodecBackend::kSimd);
};

TEST_P(CodecRoundTrip, ResidualIsExactlyWhatThePayloadLeftOut) {
  if (!codec_->keeps_residual() && !codec_->lossless()) GTEST_SKIP() << "it keeps no residual";
  if (GetParam().config.dgc().clip() > 0) GTEST_SKIP() << "it keeps nothing of what it clipped";
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomStream stream(MakeKey(seed, RandomPurpose::kSynthetic), 3);
    const size_t elements = RandomLength(&stream);
    const std::vector<float> gradient = RandomTensor(elements, &stream);
    std::vector<float> residual(elements), corrected(elements);
    for (size_t i = 0; i < elements; ++i) {
      residual[i] = stream.NextUnit() - 0.5f;
      corrected[i] = gradient[i] + residual[i];
    }
    std::vector<std::byte> payload;
    codec_->NewEncoder(ShapeOf(elements))->Encode({gradient, residual, {}, seed}, &payload);
    EXPECT_LE(payload.size(), codec_->MaxPayload(static_cast<uint32_t>(elements)));
    const std::vector<float> decoded = Decode(*codec_, payload, elements);
    for (size_t i = 0; i < elements; ++i) {
      ASSERT_EQ(corrected[i] - decoded[i], residual[i]) << "element " << i << ", seed " << seed;
    }
  }
}

TEST_P(CodecRoundTrip, ConservesIntegersToTheBitOverManySteps) {
  if (!GetParam().conserves) GTEST_SKIP() << "it promises no sums to the bit";
  constexpr size_t kElements = 1009;
  const auto encoder = codec_->NewEncoder(ShapeOf(kElements));
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 4);
  std::vector<float> sum(kElements), sent(kElements), residual(kElements), gradient(kElements);
  for (uint64_t step = 0; step < 50; ++step) {
    for (size_t i = 0; i < kElements; ++i) {
      gradient[i] = static_cast<float>(stream.NextBelow(17)) - 8;
      sum[i] += gradient[i];
    }
    std::vector<std::byte> payload;
    encoder->Encode({gradient, residual, MakeKey(1, RandomPurpose::kCodec), step}, &payload);
    codec_->Open(payload, ShapeOf(kElements)).value()->AddBlock(1, sent);
  }
  for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(sent[i] + residual[i], sum[i]) << i;
}

TEST_P(CodecRoundTrip, AppendsToWhatIsThere) {
  const std::vector<float> gradient = {3, -1, 2};
  std::vector<std::byte> alone, after = {std::byte{7}, std::byte{9}};
  codec_->NewEncoder(ShapeOf(3))->Encode({gradient, {}, {}, 0}, &alone);
  codec_->NewEncoder(ShapeOf(3))->Encode({gradient, {}, {}, 0}, &after);
  EXPECT_EQ(after[1], std::byte{9});
  EXPECT_TRUE(std::ranges::equal(ByteSpan(after).subspan(2), ByteSpan(alone)));
}

TEST_P(CodecRoundTrip, SparseAndDirectReadingSayTheSameAsAddBlock) {
  RandomStream stream(MakeKey(1, RandomPurpose::kSynthetic), 5);
  for (size_t elements : {0, 1, 700, 4097, 20000}) {
    const std::vector<float> gradient = RandomTensor(elements, &stream);
    std::vector<std::byte> payload;
    codec_->NewEncoder(ShapeOf(elements))->Encode({gradient, {}, {}, 0}, &payload);
    const std::vector<float> expected = Decode(*codec_, payload, elements);
    const auto reader = codec_->Open(payload, ShapeOf(elements)).value();
    EXPECT_EQ(reader->elements(), elements);
    if (!reader->Direct().empty()) {
      EXPECT_TRUE(std::ranges::equal(reader->Direct(), expected));
    }
    if (!reader->sparse()) continue;
    std::vector<float> values(elements);
    uint32_t indices[33];
    float entries[33];
    int64_t last = -1;
    while (const size_t count = reader->NextEntries(indices, entries)) {
      for (size_t i = 0; i < count; ++i) {
        ASSERT_GT(int64_t{indices[i]}, last);
        ASSERT_LT(indices[i], elements);
        last = indices[i];
        values[indices[i]] = entries[i];
      }
    }
    EXPECT_EQ(values, expected);
  }
}

// The lossless stage changes the bytes, but gives back the same payload.
TEST_P(CodecRoundTrip, PayloadsArePackedWithoutLoss) {
  LosslessConfig config;
  config.mutable_zstd();
  const auto packer = Packer::Make(config);
  int packed_payloads = 0;
  size_t longest = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    RandomStream stream(MakeKey(seed, RandomPurpose::kSynthetic), 6);
    const size_t elements = RandomLength(&stream);
    const std::vector<float> gradient = RandomTensor(elements, &stream);
    std::vector<std::byte> payload;
    codec_->NewEncoder(ShapeOf(elements))->Encode({gradient, {}, {}, seed}, &payload);
    longest = std::max(longest, payload.size());
    for (const uint32_t planes : {1, 2, 4}) {
      const PackedPayload packed = packer->PackIn(planes, payload);
      if (packed.planes == 0) continue;
      ++packed_payloads;
      ASSERT_LT(packed.frame.size(), payload.size());
      const auto unpacked = Unpack(packed.frame, planes, codec_->MaxPayload(elements));
      ASSERT_TRUE(unpacked.ok()) << unpacked.status();
      ASSERT_TRUE(std::ranges::equal(unpacked->span(), payload)) << "seed " << seed;
    }
  }
  // With few elements, no payload is long enough to be worth packing.
  if (longest >= 1024) {
    EXPECT_GT(packed_payloads, 0);
  }
}

TEST_P(CodecRoundTrip, ReadsFromAnyAddress) {
  const std::vector<float> gradient = {1.5f, -2, 0.25f, 3, 0, -7, 1, 1, 9};
  std::vector<std::byte> payload;
  codec_->NewEncoder(ShapeOf(9))->Encode({gradient, {}, {}, 0}, &payload);
  std::vector<std::byte> shifted(payload.size() + 1);
  std::ranges::copy(payload, shifted.begin() + 1);
  EXPECT_EQ(Decode(*codec_, ByteSpan(shifted).subspan(1), 9), Decode(*codec_, payload, 9));
}

TEST_P(CodecRoundTrip, TheTableDecodesItByItsId) {
  const CodecTable table;
  const Codec* found = table.Find(codec_->id());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name(), codec_->name());
  const std::vector<float> gradient = {3, -1, 2, 8};
  std::vector<std::byte> payload;
  codec_->NewEncoder(ShapeOf(4))->Encode({gradient, {}, {}, 0}, &payload);
  EXPECT_EQ(Decode(*found, payload, 4), Decode(*codec_, payload, 4));
}

// UpdateEncoder passes on no such values. With them a codec must not crash or send NaN as a number.
TEST_P(CodecRoundTrip, SurvivesGradientsThatAreNotFinite) {
  for (float bad : {INFINITY, -INFINITY, NAN}) {
    for (size_t elements : {1, 5000, 20000}) {
      std::vector<float> gradient(elements, 0.5f), residual(elements, 0.25f);
      gradient[elements / 2] = bad;
      std::vector<std::byte> payload;
      codec_->NewEncoder(ShapeOf(elements))->Encode({gradient, residual, {}, 0}, &payload);
      const auto reader = codec_->Open(payload, ShapeOf(elements));
      if (reader.ok()) {
        for (float v : Decode(*codec_, payload, elements)) ASSERT_TRUE(std::isfinite(v));
      } else {
        EXPECT_EQ(reader.status().code(), absl::StatusCode::kOutOfRange);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllCodecs, CodecRoundTrip, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

TEST(CodecTable, HasNoCodecForUnknownIds) {
  const CodecTable table;
  EXPECT_EQ(table.Find(static_cast<CodecId>(99)), nullptr);
  EXPECT_EQ(table.Find(static_cast<CodecId>(-1)), nullptr);
}

}  // namespace
}  // namespace psgd::codec_test
