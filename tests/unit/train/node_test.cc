#include "train/node.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

TEST(NodeTest, WorkersOfOneProcessLoadTheDataOnce) {
  int opened = 0;
  TrainerOptions options;
  options.replicas = 3;
  options.open_data = [&](const DataConfig& config, uint64_t seed) {
    ++opened;
    return OpenData(config, seed);
  };
  DataConfig config;
  config.set_format(DataConfig::SYNTHETIC);
  config.set_batch(2);
  const std::vector<TrainerOptions> workers = WorkersOf(options);
  ASSERT_EQ(workers.size(), 3u);
  const auto first = workers[0].open_data(config, 1);
  ASSERT_TRUE(first.ok()) << first.status();
  for (const TrainerOptions& worker : workers) {
    EXPECT_EQ(worker.replicas, 1);
    EXPECT_EQ(worker.open_data(config, 1)->train, first->train);
  }
  EXPECT_EQ(opened, 1);
}

}  // namespace
}  // namespace psgd
