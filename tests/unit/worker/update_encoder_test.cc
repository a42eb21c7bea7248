#include "worker/update_encoder.h"

#include <gtest/gtest.h>

#include <cstring>

namespace psgd {
namespace {

// One parameter of four elements under the optimizer, encoded with a decay of 0.5 at gradient 1 and
// weights 2.
std::vector<float> Encoded(const OptimizerConfig& optimizer, bool decays) {
  Config config;
  *config.mutable_optimizer() = optimizer;
  config.mutable_compression()->mutable_push()->mutable_none();
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(4);
  parameter->set_decay(decays);
  Placement placement;
  placement.add_slices()->set_count(4);
  const auto encoder = UpdateEncoder::Create(config, model, placement, 0);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  std::vector<EncodedSlice> slices;
  const std::vector<float> gradient(4, 1.0f), weights(4, 2.0f);
  (*encoder)->Encode(0, gradient, weights, 0.5, 1, &slices);
  std::vector<float> values(4);
  EXPECT_EQ(slices.size(), 1u);
  std::memcpy(values.data(), slices[0].payload.data(), 16);
  return values;
}

TEST(UpdateEncoder, AddsCoupledWeightDecayToTheGradient) {
  OptimizerConfig sgd;
  sgd.mutable_sgd();
  EXPECT_EQ(Encoded(sgd, true), std::vector<float>(4, 2.0f));
  EXPECT_EQ(Encoded(sgd, false), std::vector<float>(4, 1.0f));
}

// The server applies it: once is enough.
TEST(UpdateEncoder, LeavesDecoupledWeightDecayToTheServer) {
  OptimizerConfig adamw;
  adamw.mutable_adamw();
  EXPECT_EQ(Encoded(adamw, true), std::vector<float>(4, 1.0f));
}

// Of a table most rows are zero: they do not travel, and no decay fills them.
TEST(UpdateEncoder, SendsOnlyWhatASparseParameterHas) {
  Config config;
  config.mutable_optimizer()->mutable_sgd();
  config.mutable_compression()->mutable_push()->mutable_none();
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("table.weight");
  parameter->add_shape(1000);
  parameter->add_shape(4);
  parameter->set_decay(true);
  parameter->set_sparse(true);
  Placement placement;
  placement.add_slices()->set_count(4000);
  const auto encoder = UpdateEncoder::Create(config, model, placement, 0);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  std::vector<float> gradient(4000);
  gradient[40] = 1;
  const std::vector<float> weights(4000, 2.0f);
  std::vector<EncodedSlice> slices;
  (*encoder)->Encode(0, gradient, weights, 0.5, 1, &slices);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].codec, CODEC_TOPK);
  EXPECT_LT(slices[0].payload.size(), 32u);
  gradient.assign(4000, 1);
  slices.clear();
  (*encoder)->Encode(0, gradient, weights, 0.5, 2, &slices);
  EXPECT_EQ(slices[0].codec, CODEC_NONE);
  EXPECT_EQ(slices[0].payload.size(), 16000u);
}

}  // namespace
}  // namespace psgd
