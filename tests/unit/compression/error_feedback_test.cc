#include "compression/error_feedback.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace psgd {
namespace {

constexpr uint32_t kElements = 1000;

SliceShape Shape() {
  SliceShape shape;
  shape.elements = kElements;
  return shape;
}

std::unique_ptr<Codec> Onebit() {
  CodecConfig config;
  config.mutable_onebit();
  return MakeCodec(config).value();
}

std::vector<float> Ramp() {
  std::vector<float> values(kElements);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 11) - 4;
  return values;
}

void Step(ErrorFeedback* feedback, const std::vector<float>& gradient,
          std::vector<std::byte>* payload) {
  payload->clear();
  feedback->Encode(gradient, {}, 0, payload);
}

TEST(ErrorFeedback, WhatIsSentAndWhatIsLeftIsWhatWasGiven) {
  const auto codec = Onebit();
  ErrorFeedback feedback(*codec, Shape());
  const std::vector<float> gradient = Ramp();
  std::vector<float> sent(kElements);
  std::vector<std::byte> payload;
  for (int step = 1; step <= 20; ++step) {
    Step(&feedback, gradient, &payload);
    codec->Open(payload, Shape()).value()->AddBlock(1, sent);
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(sent[i] + feedback.residual()[i], static_cast<float>(step) * gradient[i]);
    }
  }
}

TEST(ErrorFeedback, SquaredNormIsOfTheResidual) {
  const auto codec = Onebit();
  ErrorFeedback feedback(*codec, Shape());
  EXPECT_EQ(feedback.SquaredNorm(), 0);
  feedback.SetResidual(std::vector<float>(kElements, 2));
  EXPECT_EQ(feedback.SquaredNorm(), 4.0 * kElements);
}

TEST(ErrorFeedback, ARestoredResidualContinuesAlike) {
  const auto codec = Onebit();
  ErrorFeedback first(*codec, Shape()), second(*codec, Shape());
  std::vector<std::byte> a, b;
  Step(&first, Ramp(), &a);
  second.SetResidual(first.residual());
  Step(&first, Ramp(), &a);
  Step(&second, Ramp(), &b);
  EXPECT_EQ(a, b);
}

// A checkpoint includes momentum and warm starts.
TEST(ErrorFeedback, RestoredStateContinuesAlike) {
  for (const CodecConfig& config : DefaultCodecs()) {
    const auto codec = MakeCodec(config).value();
    SliceShape shape = Shape();
    shape.tensor_rows = 20;
    shape.tensor_columns = 50;
    ErrorFeedback first(*codec, shape), second(*codec, shape), fresh(*codec, shape);
    std::vector<float> gradient = Ramp();
    std::vector<std::byte> a, b, c;
    for (int step = 0; step < 3; ++step) Step(&first, gradient, &a);
    std::reverse(gradient.begin(), gradient.end());
    const std::vector<float> state = first.CopyState();
    EXPECT_EQ(state.size(), codec->lossless() ? 0 : kElements * (1 + codec->state_arrays()));
    EXPECT_LE(codec->state_arrays(), kMostStateArrays);
    second.LoadState(state);
    Step(&first, gradient, &a);
    Step(&second, gradient, &b);
    Step(&fresh, gradient, &c);
    EXPECT_EQ(a, b) << codec->name();
    if (codec->state_arrays() > 0) {
      EXPECT_NE(a, c) << codec->name();
    }
    EXPECT_EQ(first.CopyState(), second.CopyState()) << codec->name();
  }
}

TEST(ErrorFeedback, TakesTheResidualOfAnotherCodec) {
  CodecConfig config;
  config.mutable_dgc();
  const auto dgc = MakeCodec(config).value();
  const auto onebit = Onebit();
  ErrorFeedback with_state(*dgc, Shape()), without(*onebit, Shape());
  const std::vector<float> residual(kElements, 2);
  with_state.LoadState(residual);
  EXPECT_EQ(with_state.SquaredNorm(), 4.0 * kElements);
  without.LoadState(with_state.CopyState());
  EXPECT_EQ(without.SquaredNorm(), 4.0 * kElements);
}

TEST(ErrorFeedback, AnotherCodecGoesOnWithWhatIsLeft) {
  CodecConfig config;
  config.mutable_topk()->set_density(0.1);
  const auto topk = MakeCodec(config).value();
  config.mutable_none();
  const auto none = MakeCodec(config).value();
  const auto onebit = Onebit();
  ErrorFeedback feedback(*none, Shape());
  const std::vector<float> gradient = Ramp();
  std::vector<float> sent(kElements);
  std::vector<std::byte> payload;
  int step = 0;
  for (const Codec* codec : {none.get(), topk.get(), onebit.get(), topk.get(), none.get()}) {
    feedback.Use(*codec);
    for (int i = 0; i < 3; ++i) {
      Step(&feedback, gradient, &payload);
      codec->Open(payload, Shape()).value()->AddBlock(1, sent);
      ++step;
      for (size_t k = 0; k < kElements; ++k) {
        const float left = feedback.residual().empty() ? 0 : feedback.residual()[k];
        ASSERT_EQ(sent[k] + left, static_cast<float>(step) * gradient[k]);
      }
    }
    EXPECT_EQ(feedback.SquaredNorm() == 0, codec == none.get());
  }
}

TEST(ErrorFeedback, DecayFadesTheResidual) {
  const auto codec = Onebit();
  ErrorFeedbackOptions options;
  options.decay = 0.5f;
  ErrorFeedback feedback(*codec, Shape(), options);
  feedback.SetResidual(std::vector<float>(kElements, 2));
  std::vector<std::byte> payload;
  Step(&feedback, std::vector<float>(kElements, 3), &payload);
  std::vector<float> sent(kElements);
  codec->Open(payload, Shape()).value()->AddBlock(1, sent);
  EXPECT_EQ(sent, std::vector<float>(kElements, 4));  // 3 + 0.5 * 2
}

TEST(ErrorFeedback, KeepsNothingWhereNothingIsLost) {
  CodecConfig none;
  none.mutable_none();
  EXPECT_TRUE(ErrorFeedback(*MakeCodec(none).value(), Shape()).residual().empty());
  ErrorFeedbackOptions options;
  options.accumulate = false;
  EXPECT_TRUE(ErrorFeedback(*Onebit(), Shape(), options).residual().empty());
}

}  // namespace
}  // namespace psgd
