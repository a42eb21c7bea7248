#include "train/factor_layers.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

TEST(FactorLayers, AreThoseOfTheConfigForWhichTheyPay) {
  Config config;
  config.mutable_cluster()->set_shards(2);
  EXPECT_EQ(FactorLayers(config, 1), nullptr);
  CompressionConfig& compression = *config.mutable_compression();
  compression.mutable_push()->mutable_fp16();
  EXPECT_EQ(FactorLayers(config, 1), nullptr);
  CompressionRule* rule = compression.add_rules();
  rule->set_match("fc*.weight");
  rule->mutable_push()->mutable_factors();
  const ChooseFactors choose = FactorLayers(config, 1);
  ASSERT_NE(choose, nullptr);
  EXPECT_TRUE(choose("fc1.weight", {512, 512}, 32));
  EXPECT_FALSE(choose("conv.weight", {512, 512}, 32));
  EXPECT_FALSE(choose("fc1.weight", {10, 512}, 32));
  EXPECT_FALSE(choose("fc1.weight", {512, 512}, 171));  // 171 * (512 + 2 * 512) of 512 * 512
  EXPECT_TRUE(choose("fc1.weight", {512, 512}, 170));
  EXPECT_FALSE(FactorLayers(config, 2)("fc1.weight", {512, 512}, 86));
  compression.set_dense_below(1 << 21);
  EXPECT_FALSE(FactorLayers(config, 1)("fc1.weight", {512, 512}, 32));
}

}  // namespace
}  // namespace psgd
