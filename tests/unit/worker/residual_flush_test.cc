// A leaving worker pushes the residuals of its codecs last.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/codec/emulated_codecs.h"
#include "worker/update_encoder.h"

namespace psgd {
namespace {

constexpr int kElements = 700;

struct Case {
  std::string name;
  CodecConfig codec;
};

// Returns the codecs that keep a residual, and whose residuals of whole numbers are exact.
std::vector<Case> ExactCodecs() {
  std::vector<Case> cases;
  for (CodecConfig& codec : DefaultCodecs()) {
    const auto made = MakeCodec(codec).value();
    const std::string name(made->name());
    if (!made->keeps_residual() || name == "powersgd" || name == "dgc") continue;
    if (codec.has_threshold()) codec.mutable_threshold()->set_tau(15);
    cases.push_back({name, codec});
  }
  return cases;
}

class Flush : public testing::TestWithParam<bool> {
 protected:
  Flush() {
    ParameterSpec* parameter = model_.add_parameters();
    parameter->set_name("w");
    parameter->add_shape(70);
    parameter->add_shape(10);
    placement_.add_slices()->set_count(400);
    placement_.add_slices()->set_offset(400);
    placement_.mutable_slices(1)->set_count(kElements - 400);
    config_.mutable_optimizer()->mutable_sgd();
    config_.mutable_compression()->set_error_feedback(true);
    config_.mutable_compression()->set_dense_below(0);
    if (GetParam()) device_ = codec_test::MakeEmulatedCodecs(/*backwards=*/false);
  }

  void Use(const CodecConfig& codec) {
    *config_.mutable_compression()->mutable_push() = codec;
    encoder_ = UpdateEncoder::Create(config_, model_, placement_, 0, {}, {{device_.get()}}).value();
    sum_.assign(kElements, 0);
    decoded_.assign(kElements, 0);
  }

  void Step(uint64_t clock) {
    std::vector<float> gradient(kElements);
    for (int i = 0; i < kElements; ++i) {
      gradient[i] = static_cast<float>((i * 11 + clock * 17) % 41) - 20;
      sum_[i] += gradient[i];
    }
    std::vector<EncodedSlice> slices;
    if (encoder_->on_device()[0]) {
      ASSERT_TRUE(encoder_->Start(0, {gradient.data(), gradient.data(), nullptr}, 0, clock).ok());
      ASSERT_TRUE(encoder_->Finish(0, &slices).ok());
    } else {
      encoder_->Encode(0, gradient, gradient, 0, clock, &slices);
    }
    for (const EncodedSlice& slice : slices) Decode(slice);
  }

  void Decode(const EncodedSlice& slice) {
    const SliceSpec& spec = placement_.slices(static_cast<int>(slice.slice));
    const auto reader =
        table_.Find(slice.codec)->Open(slice.payload.span(), {spec.count(), 70, 10, spec.offset()});
    ASSERT_TRUE(reader.ok()) << reader.status();
    (*reader)->AddBlock(1, std::span(decoded_).subspan(spec.offset(), spec.count()));
  }

  void DecodeFlushed() {
    const auto flushed = encoder_->Flush();
    ASSERT_TRUE(flushed.ok()) << flushed.status();
    for (const FlushedSlice& slice : *flushed) Decode(slice.encoded);
  }

  Config config_;
  ModelSpec model_;
  Placement placement_;
  const CodecTable table_;
  std::unique_ptr<DeviceCodecs> device_;
  std::unique_ptr<UpdateEncoder> encoder_;
  std::vector<float> sum_;      // sum of all gradients
  std::vector<float> decoded_;  // sum of all decoded payloads
};

TEST_P(Flush, WhatWasPushedIsTheSumOfAllGradients) {
  for (const Case& c : ExactCodecs()) {
    Use(c.codec);
    for (uint64_t clock = 1; clock <= 4; ++clock) Step(clock);
    const double norm = *encoder_->ResidualNorm();
    double squares = 0;
    const auto flushed = encoder_->Flush();
    ASSERT_TRUE(flushed.ok()) << c.name << flushed.status();
    for (const FlushedSlice& slice : *flushed) {
      Decode(slice.encoded);
      squares += slice.squared_norm;
    }
    EXPECT_EQ(decoded_, sum_) << c.name;
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-5 * norm) << c.name;
    EXPECT_EQ(*encoder_->ResidualNorm(), 0) << c.name;
    EXPECT_TRUE(encoder_->Flush()->empty()) << c.name;
  }
}

// Only the part of the velocity that is in the sum is owed and pushed.
TEST_P(Flush, OfDgcItIsTheSumAndNotTheVelocity) {
  CodecConfig dgc;
  dgc.mutable_dgc()->set_density(0.02);
  dgc.mutable_dgc()->set_momentum(0.5);
  Use(dgc);
  Step(1);
  // After one step v is the gradient without the sent part.
  DecodeFlushed();
  EXPECT_EQ(decoded_, sum_);
  // No velocity remains after the flush.
  decoded_.assign(kElements, 0);
  sum_.assign(kElements, 0);
  Step(2);
  DecodeFlushed();
  EXPECT_EQ(decoded_, sum_);
}

TEST_P(Flush, FadesAsAStepDoes) {
  config_.mutable_compression()->set_residual_decay(0.5);
  CodecConfig topk;
  topk.mutable_topk()->set_density(0.02);
  Use(topk);
  Step(1);
  DecodeFlushed();
  int faded = 0;
  for (int i = 0; i < kElements; ++i) {
    faded += decoded_[i] == 0.5f * sum_[i] && sum_[i] != 0;
    EXPECT_TRUE(decoded_[i] == sum_[i] || decoded_[i] == 0.5f * sum_[i]) << i;
  }
  EXPECT_GT(faded, kElements / 2);
}

TEST_P(Flush, IsNothingWhereNothingIsLeftBehind) {
  for (const char* name : {"none", "signum"}) {
    CodecConfig codec;
    if (name == std::string("signum")) {
      codec.mutable_signum();
    } else {
      codec.mutable_none();
    }
    Use(codec);
    Step(1);
    EXPECT_TRUE(encoder_->Flush()->empty()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(HostAndDevice, Flush, testing::Bool());

}  // namespace
}  // namespace psgd
