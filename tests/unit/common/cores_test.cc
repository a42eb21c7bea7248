#include "common/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// The two lowest cores of this process are described as `nodes` and `siblings` say.
class CoresTest : public testing::Test {
 protected:
  CoresTest() : first_(UsableCores("/nowhere").order[0]) { std::filesystem::remove_all(folder_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "cores_test";
  const int first_;
};

TEST_F(CoresTest, AreThoseOfTheProcess) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  const Cores cores = UsableCores("/nowhere");
  EXPECT_THAT(cores.order, SizeIs(CPU_COUNT(&set)));
  EXPECT_EQ(cores.physical, cores.order.size());
  EXPECT_EQ(cores.nodes, 1u);
}

TEST_F(CoresTest, SecondThreadsOfACoreComeLast) {
  for (const int core : UsableCores("/nowhere").order) {
    Write(absl::StrCat("cpu/cpu", core, "/topology/thread_siblings_list"), "0-1023");
  }
  const Cores cores = UsableCores(folder_.string());
  EXPECT_EQ(cores.physical, 1u);
  EXPECT_EQ(cores.order[0], first_);
  EXPECT_EQ(ShardsFor(cores), 1);
}

TEST_F(CoresTest, NodesAreCounted) {
  Write("node/online", "0,2");
  Write("node/node0/cpulist", absl::StrCat(first_));
  Write("node/node2/cpulist", absl::StrCat(first_ + 1, "-1023"));
  const Cores cores = UsableCores(folder_.string());
  EXPECT_EQ(cores.nodes, cores.order.size() > 1 ? 2u : 1u);
  EXPECT_EQ(cores.order[0], first_);
}

TEST(ShardsFor, LeavesACoreAndTheMemoryEnough) {
  const auto shards = [](size_t physical, size_t nodes) {
    return ShardsFor({.order = {}, .physical = physical, .nodes = nodes});
  };
  EXPECT_EQ(shards(1, 1), 1);
  EXPECT_EQ(shards(2, 1), 1);
  EXPECT_EQ(shards(6, 1), 5);
  EXPECT_EQ(shards(64, 1), 8);
  EXPECT_EQ(shards(64, 2), 16);
}

TEST(StayOnCore, HoldsForTheCallingThreadAlone) {
  const std::vector<int> before = UsableCores().order;
  std::thread([&] {
    ASSERT_TRUE(StayOnCore(before.back()));
    EXPECT_THAT(UsableCores().order, ElementsAre(before.back()));
  }).join();
  EXPECT_EQ(UsableCores().order, before);
  EXPECT_FALSE(StayOnCore(1023));
}

}  // namespace
}  // namespace psgd
