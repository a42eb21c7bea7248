#include "common/available_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace psgd {
namespace {

namespace fs = std::filesystem;

class AvailableMemoryTest : public testing::Test {
 protected:
  AvailableMemoryTest() : root_(testing::TempDir() + "/available_memory_test") {
    fs::remove_all(root_);
    Write("/proc/meminfo", "MemTotal:  9000 kB\nMemFree: 1 kB\nMemAvailable:   4000 kB\n");
  }
  ~AvailableMemoryTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const std::string root_;
};

TEST_F(AvailableMemoryTest, WithoutLimitsItIsTheHosts) {
  EXPECT_EQ(AvailableMemory(root_), 4000u * 1024);
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "max\n");
  Write("/sys/fs/cgroup/memory.current", "5\n");
  EXPECT_EQ(AvailableMemory(root_), 4000u * 1024);
}

TEST_F(AvailableMemoryTest, AGroupOfVersionTwoLimitsIt) {
  Write("/proc/self/cgroup", "0::/job/step\n");
  Write("/sys/fs/cgroup/job/memory.max", "1000000\n");
  Write("/sys/fs/cgroup/job/memory.current", "700000\n");
  Write("/sys/fs/cgroup/job/memory.stat", "anon 600000\ninactive_file 100000\n");
  Write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  EXPECT_EQ(AvailableMemory(root_), 400000u);
  Write("/sys/fs/cgroup/job/memory.current", "2000000\n");
  EXPECT_EQ(AvailableMemory(root_), 0u);
}

// Like in a container: the group's own folder is missing, and its limit is at the top.
TEST_F(AvailableMemoryTest, AGroupOfVersionOneLimitsIt) {
  Write("/proc/self/cgroup", "3:cpu,cpuacct:/a\n4:memory:/docker/abc\n0::/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
  Write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 1000\n");
  EXPECT_EQ(AvailableMemory(root_), 1501000u);
}

TEST_F(AvailableMemoryTest, NothingIsKnownWhereNothingSays) {
  EXPECT_EQ(AvailableMemory(root_ + "/nowhere"), 0u);
}

TEST(AvailableMemory, IsSomethingOnThisHost) { EXPECT_GT(AvailableMemory(), 0u); }

}  // namespace
}  // namespace psgd
