// dgc against its paper's algorithm.
#include <gtest/gtest.h>

#include "compression/error_feedback.h"
#include "tests/unit/compression/tensors.h"

namespace psgd {
namespace {

CodecConfig Config(double density, double momentum) {
  CodecConfig config;
  config.mutable_dgc()->set_density(density);
  config.mutable_dgc()->set_momentum(momentum);
  return config;
}

struct Entries {
  std::vector<uint32_t> indices;
  std::vector<float> values;
};

Entries Sent(const Codec& codec, const std::vector<std::byte>& payload, const SliceShape& shape) {
  Entries entries;
  entries.indices.resize(shape.elements);
  entries.values.resize(shape.elements);
  const size_t count =
      codec.Open(payload, shape).value()->NextEntries(entries.indices, entries.values);
  entries.indices.resize(count);
  entries.values.resize(count);
  return entries;
}

TEST(Dgc, CorrectsAndMasksMomentumAsPublished) {
  constexpr size_t kElements = 1000, kKeep = 20;
  constexpr float kMomentum = 0.75f;
  const auto codec = MakeCodec(Config(0.02, kMomentum)).value();
  const SliceShape shape = ShapeOf(kElements);
  ErrorFeedback feedback(*codec, shape);
  std::vector<float> u(kElements), v(kElements);
  for (uint64_t step = 0; step < 30; ++step) {
    const std::vector<float> gradient = Gaussian(kElements, 100 + step);
    std::vector<std::byte> payload;
    feedback.Encode(gradient, {}, step, &payload);
    for (size_t i = 0; i < kElements; ++i) {
      u[i] = kMomentum * u[i] + gradient[i];
      v[i] += u[i];
    }
    const Entries sent = Sent(*codec, payload, shape);
    ASSERT_EQ(sent.indices.size(), kKeep);
    float smallest = INFINITY;
    for (size_t e = 0; e < kKeep; ++e) {
      const uint32_t i = sent.indices[e];
      ASSERT_EQ(sent.values[e], v[i]);
      smallest = std::min(smallest, std::fabs(v[i]));
      u[i] = v[i] = 0;
    }
    for (size_t i = 0; i < kElements; ++i) {
      ASSERT_LE(std::fabs(v[i]), smallest);
      ASSERT_EQ(feedback.residual()[i], v[i]) << "step " << step;
    }
    const std::vector<float> state = feedback.CopyState();
    ASSERT_EQ(state.size(), 2 * kElements);
    EXPECT_EQ(std::vector<float>(state.begin() + kElements, state.end()), u);
  }
}

TEST(Dgc, IsPlainMomentumWhereAllIsSent) {
  const auto codec = MakeCodec(Config(1, 0.5)).value();
  const SliceShape shape = ShapeOf(100);
  ErrorFeedback feedback(*codec, shape);
  std::vector<float> u(100);
  for (uint64_t step = 0; step < 5; ++step) {
    const std::vector<float> gradient = Gaussian(100, step);
    std::vector<std::byte> payload;
    feedback.Encode(gradient, {}, step, &payload);
    for (size_t i = 0; i < u.size(); ++i) u[i] = 0.5f * u[i] + gradient[i];
    EXPECT_EQ(Decoded(*codec, payload, shape), u);
    EXPECT_EQ(feedback.SquaredNorm(), 0);
  }
}

TEST(Dgc, WarmsUpThroughThePapersDensities) {
  CodecConfig config = Config(0.001, 0.9);
  config.mutable_dgc()->mutable_warmup()->set_steps(400);
  const auto codec = MakeCodec(config).value();
  const SliceShape shape = ShapeOf(10000);
  const auto encoder = codec->NewEncoder(shape);
  const std::vector<float> gradient = Gaussian(10000, 1);
  const auto sent = [&](uint64_t step) {
    std::vector<std::byte> payload;
    encoder->Encode({gradient, {}, {}, step}, &payload);
    return Sent(*codec, payload, shape).indices.size();
  };
  EXPECT_EQ(sent(0), 2500u);
  EXPECT_NEAR(static_cast<double>(sent(100)), 625, 10);
  EXPECT_NEAR(static_cast<double>(sent(200)), 156, 3);
  EXPECT_NEAR(static_cast<double>(sent(300)), 40, 1);
  EXPECT_EQ(sent(400), 10u);
  EXPECT_EQ(sent(9999), 10u);
}

// The worker's share of the limit falls with the root of the number of workers, a slice's share
// with the root of its part of the tensor.
TEST(Dgc, ClipsTheGradientsNorm) {
  CodecConfig config = Config(0.01, 0);
  config.mutable_dgc()->set_clip(8);
  SliceShape shape = ShapeOf(1000);
  shape.tensor_rows = 40;
  shape.tensor_columns = 100;
  const auto codec = MakeCodec(config, {.workers = 4}).value();
  for (float size : {10.0f, 0.001f}) {
    const std::vector<float> gradient(1000, size);
    std::vector<float> left(1000);
    std::vector<std::byte> payload;
    codec->NewEncoder(shape)->Encode({gradient, left, {}, 0}, &payload);
    codec->Open(payload, shape).value()->AddBlock(1, left);
    const double expected =
        std::min(8 / std::sqrt(4.0) * std::sqrt(0.25), std::sqrt(SquaredNorm(gradient)));
    EXPECT_NEAR(std::sqrt(SquaredNorm(left)), expected, 1e-5 * expected);
  }
}

// 0.1 % with indices is at least 270 times smaller, with every byte of the payload counted.
TEST(Dgc, IsSmallOnALargestSlice) {
  const auto codec = MakeCodec(Config(0.001, 0.9)).value();
  const std::vector<float> gradient = Gaussian(1 << 20, 2);
  std::vector<float> residual(gradient.size());
  std::vector<std::byte> payload;
  codec->NewEncoder(ShapeOf(gradient.size()))->Encode({gradient, residual, {}, 0}, &payload);
  EXPECT_LT(payload.size() * 500, gradient.size() * 4);
}

}  // namespace
}  // namespace psgd
