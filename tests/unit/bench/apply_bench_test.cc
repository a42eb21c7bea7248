// The measured work is right with one shard and with several.
#include "bench/apply_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/cores.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ApplyBenchOptions Small(int shards) {
  ApplyBenchOptions options;
  options.slice = 1000;
  options.slices = 5;
  options.shards = shards;
  options.repeats = 1;
  options.optimizers = {"momentum"};
  return options;
}

TEST(ApplyBench, RowsAreVerifiedWithAShardOnEachCore) {
  const int cores = static_cast<int>(UsableCores().order.size());
  for (const int shards : {1, std::min(cores, 2)}) {
    const auto rows = RunApplyBench(Small(shards));
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::vector<std::string> names;
    for (const BenchRow& row : *rows) {
      names.push_back(row.name);
      EXPECT_TRUE(row.verified) << row.name;
      EXPECT_GT(row.ratio, 0) << row.name;
    }
    EXPECT_THAT(names, ElementsAre("momentum/none", "momentum/topk"));
  }
}

TEST(ApplyBench, AShardNeedsACoreAndASlice) {
  const absl::Status none = RunApplyBench(Small(0)).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  const absl::Status many = RunApplyBench(Small(6)).status();
  EXPECT_EQ(many.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(many.message(), HasSubstr("--shards 6: a shard needs a core of its own"));
}

}  // namespace
}  // namespace psgd
