// An encoder that tries, chooses and changes its codec between steps (compression.push: auto), with
// gradients on the host and on a device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "compression/policy.h"
#include "tests/conformance/codec/emulated_codecs.h"
#include "worker/update_encoder.h"

namespace psgd {
namespace {

constexpr size_t kRows = 60, kColumns = 50, kElements = kRows * kColumns;
constexpr uint32_t kFirstSlice = 1800;
constexpr int kSteps = 2;

LinkSpeed Link(double bytes_per_second) { return {.bytes_per_second = bytes_per_second}; }

// The test parameter: whether gradients lie on a device.
class CodecSwitch : public testing::TestWithParam<bool> {
 protected:
  CodecSwitch() {
    config_.mutable_compression()->set_dense_below(100);
    ParameterSpec* weight = model_.add_parameters();
    weight->set_name("fc.weight");
    weight->add_shape(kRows);
    weight->add_shape(kColumns);
    ParameterSpec* bias = model_.add_parameters();
    bias->set_name("fc.bias");
    bias->add_shape(10);
    const auto add = [&](uint32_t parameter, uint64_t offset, uint32_t count) {
      SliceSpec* slice = placement_.add_slices();
      slice->set_parameter(parameter);
      slice->set_offset(offset);
      slice->set_count(count);
    };
    add(0, 0, kFirstSlice);
    add(0, kFirstSlice, kElements - kFirstSlice);
    add(1, 0, 10);
    Auto()->set_steps(kSteps);
    if (GetParam()) device_ = codec_test::MakeEmulatedCodecs(/*backwards=*/false);
  }

  AutoCodec* Auto() { return config_.mutable_compression()->mutable_push()->mutable_auto_(); }
  std::unique_ptr<UpdateEncoder> Make() { return Make(device_.get()); }
  std::unique_ptr<UpdateEncoder> Make(DeviceCodecs* device) {
    auto encoder = UpdateEncoder::Create(config_, model_, placement_, 0, {}, {{device, device}});
    EXPECT_TRUE(encoder.ok()) << encoder.status();
    const bool there = device != nullptr;
    EXPECT_EQ((*encoder)->on_device(), (std::vector<bool>{there, false}));
    return *std::move(encoder);
  }
  static std::vector<EncodedSlice> Encoded(UpdateEncoder* encoder,
                                           const std::vector<float>& gradient, uint64_t step) {
    std::vector<EncodedSlice> slices;
    if (encoder->on_device()[0]) {
      EXPECT_TRUE(encoder->Start(0, {gradient.data(), gradient.data(), nullptr}, 0, step).ok());
      EXPECT_TRUE(encoder->Finish(0, &slices).ok());
    } else {
      encoder->Encode(0, gradient, gradient, 0, step, &slices);
    }
    EXPECT_EQ(slices.size(), 2u);
    return slices;
  }

  // Encodes whole numbers that differ at each step. Returns the slices sent.
  std::vector<EncodedSlice> Step(UpdateEncoder* encoder) {
    ++step_;
    std::vector<float> gradient(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      gradient[i] = static_cast<float>((i * 37 + step_ * 101) % 255) - 127;
      given_[i] += gradient[i];
    }
    std::vector<EncodedSlice> slices = Encoded(encoder, gradient, step_);
    for (size_t s = 0; s < slices.size(); ++s) {
      SliceShape shape;
      shape.elements = placement_.slices(static_cast<int>(s)).count();
      shape.offset = placement_.slices(static_cast<int>(s)).offset();
      shape.tensor_rows = kRows;
      shape.tensor_columns = kColumns;
      const auto reader =
          codecs_.Find(slices[s].codec)->Open(slices[s].payload.span(), shape).value();
      reader->AddBlock(1, std::span(sent_).subspan(shape.offset, shape.elements));
    }
    return slices;
  }
  void Try(UpdateEncoder* encoder) {
    while (!encoder->tried()) Step(encoder);
  }
  static std::vector<float> Residual(const UpdateEncoder& encoder) {
    std::vector<float> all(kElements);
    const auto residuals = encoder.CopyResiduals().value();
    for (const auto& [slice, state] : residuals) {
      const size_t offset = slice == 0 ? 0 : kFirstSlice;
      const size_t count = slice == 0 ? kFirstSlice : kElements - kFirstSlice;
      std::memcpy(all.data() + offset, state.data(), count * sizeof(float));
    }
    return all;
  }
  static std::map<uint32_t, Bytes> Saved(const UpdateEncoder& encoder) {
    const auto residuals = encoder.CopyResiduals().value();
    return {residuals.begin(), residuals.end()};
  }
  // Checks that the sent values plus the residual equal the gradients, to the bit.
  void CheckNothingIsLost(const UpdateEncoder& encoder) {
    const std::vector<float> residual = Residual(encoder);
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(sent_[i] + residual[i], given_[i]) << "element " << i << ", step " << step_;
    }
  }

  Config config_;
  ModelSpec model_;
  Placement placement_;
  CodecTable codecs_;
  std::unique_ptr<DeviceCodecs> device_;
  uint64_t step_ = 0;
  std::vector<float> given_ = std::vector<float>(kElements);
  std::vector<float> sent_ = std::vector<float>(kElements);
};

TEST_P(CodecSwitch, EveryCandidateIsTriedInTurn) {
  const auto encoder = Make();
  EXPECT_TRUE(encoder->chooses());
  std::vector<CodecId> tried;
  while (!encoder->tried()) tried.push_back(Step(encoder.get())[0].codec);
  EXPECT_EQ(tried, (std::vector<CodecId>{CODEC_FP16, CODEC_FP16, CODEC_INT8, CODEC_INT8,
                                         CODEC_ONEBIT, CODEC_ONEBIT, CODEC_TOPK, CODEC_TOPK}));
  EXPECT_EQ(Step(encoder.get())[0].codec, CODEC_FP16) << "until one is chosen";
}

TEST_P(CodecSwitch, WhatOneCodecLeftOutTheNextSends) {
  Auto()->add_codecs()->mutable_none();
  Auto()->add_codecs()->mutable_topk()->set_density(0.05);
  Auto()->add_codecs()->mutable_onebit();
  Auto()->add_codecs()->mutable_ternary();
  const auto encoder = Make();
  while (!encoder->tried()) {
    Step(encoder.get());
    CheckNothingIsLost(*encoder);
  }
  // Switches between a sparse and a lossless codec, on links where only bytes take time.
  for (double speed : {1e-3, 1e12, 1e-3, 1e12}) {
    encoder->Choose(Link(speed));
    for (int i = 0; i < 3; ++i) {
      Step(encoder.get());
      CheckNothingIsLost(*encoder);
    }
  }
}

TEST_P(CodecSwitch, ALosslessCodecSendsAllThatWasLeft) {
  Auto()->add_codecs()->mutable_none();
  Auto()->add_codecs()->mutable_topk();
  const auto encoder = Make();
  Try(encoder.get());
  EXPECT_GT(*encoder->ResidualNorm(), 0);
  // No link makes `none` the choice, so the test uses the turn of `none` among the tries.
  const auto again = Make();
  const std::map<uint32_t, Bytes> saved = Saved(*encoder);
  ASSERT_TRUE(again->RestoreResiduals(saved).ok());
  while (Step(again.get())[0].codec != CODEC_NONE) CheckNothingIsLost(*again);
  EXPECT_EQ(*again->ResidualNorm(), 0);
  EXPECT_EQ(sent_, given_);
}

TEST_P(CodecSwitch, TheLinkDecides) {
  const auto encoder = Make();
  Try(encoder.get());
  EXPECT_TRUE(encoder->Choose(Link(100)));
  EXPECT_EQ(Step(encoder.get())[0].codec, CODEC_TOPK);
  EXPECT_FALSE(encoder->Choose(Link(110)));
  const CodecChoices choices = encoder->Choices(Link(100));
  ASSERT_EQ(choices.tensors_size(), 1) << "a small tensor travels as it is";
  const CodecChoices::Tensor& tensor = choices.tensors(0);
  EXPECT_EQ(tensor.parameter(), "fc.weight");
  ASSERT_EQ(tensor.candidates_size(), 4);
  EXPECT_EQ(tensor.candidates(0).codec(), "fp16");
  EXPECT_EQ(tensor.candidates(0).bytes(), 2 * kElements);
  EXPECT_DOUBLE_EQ(tensor.candidates(0).seconds_send(), 2 * kElements / 100.0);
  EXPECT_EQ(tensor.candidates(tensor.chosen()).codec(), "topk");
  for (const auto& candidate : tensor.candidates()) {
    EXPECT_GT(candidate.seconds_encode(), 0) << candidate.codec();
    EXPECT_GT(candidate.seconds_decode(), 0) << candidate.codec();
  }
}

// A resumed encoder tries all codecs again. Its residual is not lost.
TEST_P(CodecSwitch, AResumedEncoderGoesOnWithWhatWasLeft) {
  Auto()->add_codecs()->mutable_topk();
  Auto()->add_codecs()->mutable_powersgd();
  const auto first = Make();
  Try(first.get());
  first->Choose(Link(1));
  Step(first.get());
  const std::map<uint32_t, Bytes> saved = Saved(*first);
  ASSERT_FALSE(saved.empty());
  const auto second = Make();
  ASSERT_TRUE(second->RestoreResiduals(saved).ok());
  EXPECT_EQ(Residual(*second), Residual(*first));
  EXPECT_FALSE(second->tried());
  EXPECT_EQ(Step(second.get())[0].codec, CODEC_FP16);
}

TEST_P(CodecSwitch, WithoutErrorFeedbackNothingIsKept) {
  config_.mutable_compression()->set_error_feedback(false);
  const auto encoder = Make();
  Try(encoder.get());
  encoder->Choose(Link(100));
  Step(encoder.get());
  EXPECT_EQ(*encoder->ResidualNorm(), 0);
  EXPECT_TRUE(encoder->CopyResiduals()->empty());
}

TEST_P(CodecSwitch, AFixedCodecIsNoChoice) {
  config_.mutable_compression()->mutable_push()->mutable_topk();
  const auto encoder = Make();
  EXPECT_FALSE(encoder->chooses());
  EXPECT_TRUE(encoder->tried());
  EXPECT_FALSE(encoder->Choose(Link(1)));
  EXPECT_EQ(encoder->Choices(Link(1)).tensors_size(), 0);
}

// Holds for every codec tried and chosen, and for codecs that keep more state than a residual; no
// other codec uses that state.
TEST_P(CodecSwitch, BytesAndResidualsAreThoseOfTheHost) {
  config_.mutable_compression()->set_residual_decay(0.5);
  Auto()->add_codecs()->mutable_powersgd();
  Auto()->add_codecs()->mutable_none();
  Auto()->add_codecs()->mutable_topk();
  const auto encoder = Make(), host = Make(nullptr);
  uint64_t step = 0;
  const auto compare = [&] {
    ++step;
    std::vector<float> gradient(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      gradient[i] = static_cast<float>((i * 37 + step * 101) % 255) - 127;
    }
    const auto made = Encoded(encoder.get(), gradient, step);
    const auto expected = Encoded(host.get(), gradient, step);
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(made[s].codec, expected[s].codec);
      EXPECT_TRUE(std::ranges::equal(made[s].payload.span(), expected[s].payload.span())) << step;
    }
    const auto left = Saved(*encoder), expected_left = Saved(*host);
    ASSERT_EQ(left.size(), expected_left.size());
    for (const auto& [slice, state] : left) {
      EXPECT_TRUE(std::ranges::equal(state.span(), expected_left.at(slice).span())) << step;
    }
  };
  for (int i = 0; i < 4 * kSteps + 1; ++i) compare();
  // The link is so slow that only bytes decide, and both have the same bytes.
  encoder->Choose(Link(1e-3));
  host->Choose(Link(1e-3));
  for (int i = 0; i < 3; ++i) compare();
}

INSTANTIATE_TEST_SUITE_P(Where, CodecSwitch, testing::Bool(),
                         [](const auto& info) { return info.param ? "device" : "host"; });

}  // namespace
}  // namespace psgd
