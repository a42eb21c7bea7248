#include "common/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
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
    Write(absl::StrCat("sys/devices/system/cpu/cpu", core, "/topology/thread_siblings_list"),
          "0-1023");
  }
  const Cores cores = UsableCores(folder_.string());
  EXPECT_EQ(cores.physical, 1u);
  EXPECT_EQ(cores.order[0], first_);
  EXPECT_EQ(ShardsFor(cores), 1);
}

TEST_F(CoresTest, NodesAreCounted) {
  Write("sys/devices/system/node/online", "0,2");
  Write("sys/devices/system/node/node0/cpulist", absl::StrCat(first_));
  Write("sys/devices/system/node/node2/cpulist", absl::StrCat(first_ + 1, "-1023"));
  const Cores cores = UsableCores(folder_.string());
  EXPECT_EQ(cores.nodes, cores.order.size() > 1 ? 2u : 1u);
  EXPECT_EQ(cores.order[0], first_);
}

// Of the smallest quota, whole cores count, and one is always there. Names and signs are those of
// the two versions of control groups.
TEST_F(CoresTest, AQuotaLimitsHowManyAreBusy) {
  const size_t all = UsableCores("/nowhere").order.size();
  const auto busy = [&] { return UsableCores(folder_.string()).busy; };
  EXPECT_EQ(busy(), all);
  Write("proc/self/cgroup", "0::/pod/container");
  Write("sys/fs/cgroup/pod/container/cpu.max", "max 100000");
  Write("sys/fs/cgroup/pod/cpu.max", "6400000 100000");
  EXPECT_EQ(busy(), std::min<size_t>(all, 64));
  Write("sys/fs/cgroup/cpu.max", "190000 100000");
  EXPECT_EQ(busy(), 1u);
  EXPECT_EQ(UsableCores(folder_.string()).order.size(), all);

  Write("proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a\n0::/");
  std::filesystem::remove(folder_ / "sys/fs/cgroup/cpu.max");
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1");
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(busy(), all);
  Write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(busy(), 1u);
}

TEST(ShardsFor, LeavesACoreAndTheMemoryEnough) {
  const auto shards = [](size_t physical, size_t nodes, size_t busy = 64) {
    return ShardsFor({.order = {}, .physical = physical, .nodes = nodes, .busy = busy});
  };
  EXPECT_EQ(shards(1, 1), 1);
  EXPECT_EQ(shards(2, 1), 1);
  EXPECT_EQ(shards(6, 1), 5);
  EXPECT_EQ(shards(64, 1), 8);
  EXPECT_EQ(shards(64, 2), 16);
  EXPECT_EQ(shards(64, 2, 4), 3);
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
