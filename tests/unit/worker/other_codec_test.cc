// A codec resumes from the checkpoint of another codec.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compression/saved_state.h"
#include "tests/conformance/codec/emulated_codecs.h"
#include "tests/unit/compression/factors_of.h"
#include "tests/unit/worker/encode_step.h"
#include "worker/update_encoder.h"

namespace psgd {
namespace {

constexpr int kRowsOfW = 60, kColumnsOfW = 50, kCount = kRowsOfW * kColumnsOfW;

// The test parameter: whether the encoder runs on a device.
class OtherCodec : public testing::TestWithParam<bool> {
 protected:
  OtherCodec() {
    ParameterSpec* parameter = model_.add_parameters();
    parameter->set_name("w");
    parameter->add_shape(kRowsOfW);
    parameter->add_shape(kColumnsOfW);
    placement_.add_slices()->set_count(kCount);
    if (GetParam()) device_ = codec_test::MakeEmulatedCodecs(/*backwards=*/false);
    for (int i = 0; i < kCount; ++i) gradient_.push_back(static_cast<float>(i * 7 % 41) - 20);
  }

  std::unique_ptr<UpdateEncoder> Make(const CodecConfig& codec, int64_t factor_rows = 0) {
    Config config;
    config.mutable_compression()->set_dense_below(0);
    *config.mutable_compression()->mutable_push() = codec;
    const std::vector<int64_t> rows = {factor_rows};
    return UpdateEncoder::Create(config, model_, placement_, 0, rows, {{device_.get()}}).value();
  }
  // Returns the saved state after some steps.
  std::map<uint32_t, Bytes> SavedBy(const CodecConfig& codec) {
    const auto encoder = Make(codec);
    for (uint64_t clock = 1; clock < 4; ++clock) EncodeStep(*encoder, gradient_, clock);
    const auto states = encoder->CopyResiduals().value();
    return {states.begin(), states.end()};
  }
  static std::vector<float> ResidualIn(const std::map<uint32_t, Bytes>& saved) {
    const auto state = ReadSavedState(saved.at(0).span(), kCount);
    EXPECT_TRUE(state.has_value());
    std::vector<float> residual(kCount);
    std::memcpy(residual.data(), state->residual.data(), state->residual.size());
    return residual;
  }

  ModelSpec model_;
  Placement placement_;
  std::unique_ptr<DeviceCodecs> device_;
  std::vector<float> gradient_;
};

CodecConfig Of(const std::string& name) {
  CodecConfig config;
  if (name == "powersgd 4") config.mutable_powersgd()->set_rank(4);
  if (name == "powersgd 2") config.mutable_powersgd()->set_rank(2);
  if (name == "dgc") config.mutable_dgc()->set_density(1);
  if (name == "signum") config.mutable_signum();
  if (name == "topk") config.mutable_topk()->set_density(0.05);
  if (name == "none") config.mutable_none();
  return config;
}

// Q must not be taken for a velocity, a mean of gradients, or a Q of another rank.
TEST_P(OtherCodec, TakesNoMemoryThatIsNotItsOwn) {
  const std::vector<std::string> names = {"powersgd 4", "powersgd 2", "dgc", "signum"};
  // The opposite gradient makes the remembered state visible.
  std::vector<float> next(gradient_);
  for (float& value : next) value = -value;
  for (const std::string& from : names) {
    const std::map<uint32_t, Bytes> saved = SavedBy(Of(from));
    std::map<uint32_t, Bytes> without;
    without[0] = MakeSavedState(ResidualIn(saved), 0);
    for (const std::string& to : names) {
      const auto whole = Make(Of(to)), residual_alone = Make(Of(to));
      ASSERT_TRUE(whole->RestoreResiduals(saved).ok());
      ASSERT_TRUE(residual_alone->RestoreResiduals(without).ok());
      const Bytes a = EncodeStep(*whole, next, 4).payload,
                  b = EncodeStep(*residual_alone, next, 4).payload;
      EXPECT_EQ(std::ranges::equal(a.span(), b.span()), from != to) << from << " to " << to;
    }
  }
}

TEST_P(OtherCodec, ThatLosesNothingSendsWhatIsOwedOnce) {
  const std::map<uint32_t, Bytes> saved = SavedBy(Of("topk"));
  const std::vector<float> owed = ResidualIn(saved);
  std::vector<float> expected(gradient_);
  for (int i = 0; i < kCount; ++i) expected[i] += owed[i];
  const auto encoder = Make(Of("none"));
  EXPECT_EQ(encoder->RestoreResiduals(saved).value(), 0);
  const double norm = *encoder->ResidualNorm();
  EXPECT_GT(norm, 0);
  // The residual is not sent with a gradient that the shard will refuse.
  std::vector<float> bad = gradient_;
  bad[7] = NAN;
  EXPECT_TRUE(std::ranges::equal(EncodeStep(*encoder, bad, 4).payload.span(), AsBytes(bad)));
  EXPECT_EQ(*encoder->ResidualNorm(), norm);
  EXPECT_EQ(encoder->CopyResiduals().value().size(), 1u);
  EXPECT_TRUE(
      std::ranges::equal(EncodeStep(*encoder, gradient_, 5).payload.span(), AsBytes(expected)));
  EXPECT_EQ(*encoder->ResidualNorm(), 0);
  EXPECT_TRUE(encoder->CopyResiduals().value().empty());
  EXPECT_TRUE(
      std::ranges::equal(EncodeStep(*encoder, gradient_, 6).payload.span(), AsBytes(gradient_)));
}

TEST_P(OtherCodec, OfFactorsSendsTheGradientWithWhatIsOwedOnce) {
  const std::map<uint32_t, Bytes> saved = SavedBy(Of("topk"));
  const std::vector<float> owed = ResidualIn(saved);
  CodecConfig config;
  config.mutable_factors();
  FactorsOf factors(2, kRowsOfW, kColumnsOfW, 1);
  for (float& value : factors.values) value = std::round(4 * value);
  const auto encoder = Make(config, 2);
  EXPECT_EQ(encoder->RestoreResiduals(saved).value(), 0);
  std::vector<float> expected(kCount);
  for (int i = 0; i < kCount; ++i) {
    expected[i] = factors.Product(i / kColumnsOfW, i % kColumnsOfW) + owed[i];
  }
  std::vector<EncodedSlice> slices;
  encoder->Encode(0, factors.values, gradient_, 0, 4, &slices);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].codec, CODEC_NONE);
  EXPECT_TRUE(std::ranges::equal(slices[0].payload.span(), AsBytes(expected)));
  slices.clear();
  encoder->Encode(0, factors.values, gradient_, 0, 5, &slices);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].codec, CODEC_FACTORS);
}

TEST_P(OtherCodec, ThatKeepsNothingSaysWhatItDrops) {
  const std::map<uint32_t, Bytes> saved = SavedBy(Of("topk"));
  double squares = 0;
  for (const float value : ResidualIn(saved)) squares += double{value} * value;
  EXPECT_DOUBLE_EQ(Make(Of("signum"))->RestoreResiduals(saved).value(), std::sqrt(squares));
  EXPECT_EQ(Make(Of("powersgd 4"))->RestoreResiduals(saved).value(), 0);
}

TEST_P(OtherCodec, RefusesAStateThatIsNone) {
  const auto encoder = Make(Of("dgc"));
  for (const size_t bytes : {0, 4, 4 * kCount - 4, 8 * kCount, 8 * kCount + 8, 12 * kCount + 4}) {
    const std::map<uint32_t, Bytes> bad = {{0, Bytes::Adopt(std::vector<std::byte>(bytes))}};
    EXPECT_TRUE(absl::IsDataLoss(encoder->RestoreResiduals(bad).status())) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(HostAndDevice, OtherCodec, testing::Bool());

}  // namespace
}  // namespace psgd
