#include "experiment/record/weights_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace psgd {
namespace {

using testing::HasSubstr;

WeightsCollector WeightsOf(float first, float second) {
  WeightsChunk model;
  auto& parameter = *model.mutable_model()->add_parameters();
  parameter.set_name("fc1.weight");
  parameter.add_shape(2);
  parameter.mutable_initializer()->mutable_constant();
  const float values[] = {first, second};
  WeightsChunk chunk;
  chunk.set_values(std::string(reinterpret_cast<const char*>(values), sizeof values));
  WeightsCollector weights;
  for (const WeightsChunk& each : {model, chunk}) {
    const absl::Status added = weights.Add(each);
    EXPECT_TRUE(added.ok()) << added;
  }
  return weights;
}

TEST(WeightsCollector, SaysWhichWeightsAreNotFinite) {
  EXPECT_TRUE(WeightsOf(1, 2).CheckFinite().ok());
  const absl::Status bad = WeightsOf(1, std::numeric_limits<float>::infinity()).CheckFinite();
  EXPECT_TRUE(absl::IsOutOfRange(bad)) << bad;
  EXPECT_THAT(std::string(bad.message()),
              HasSubstr("the weights of fc1.weight are not all finite numbers (element 1 is inf)"));
}

}  // namespace
}  // namespace psgd
