#include "common/freed_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace psgd {
namespace {

// Sanitizers have a malloc of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

constexpr int64_t kMiB = 1 << 20;

// Makes, fills and frees blocks as large as messages.
void UseBlocks(int count) {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < count; ++i) {
    blocks.emplace_back(new char[4 * kMiB]);
    std::memset(blocks.back().get(), 1, 4 * kMiB);
  }
}

// Page faults of this thread meanwhile.
int64_t FaultsOfBlocks() {
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  const int64_t before = faults();
  UseBlocks(8);
  return faults() - before;
}

// Memory that this process has of the system.
int64_t ResidentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(FreedMemory, IsUsedAgain) {
  const FreedMemoryKeeper keeper;
  int64_t first = 0, second = 0;
  const auto twice = [&] {
    first = FaultsOfBlocks();
    second = FaultsOfBlocks();
  };
  twice();
  EXPECT_LT(second, 100) << "of " << first;
  std::thread(twice).join();
  EXPECT_LT(second, 100) << "of " << first << " in a thread with memory of its own";
}

TEST(FreedMemory, IsGivenBackWithTheLastKeeper) {
  std::optional<FreedMemoryKeeper> one(std::in_place), other(std::in_place);
  const int64_t before = ResidentBytes();
  UseBlocks(50);
  EXPECT_GT(ResidentBytes(), before + 150 * kMiB);
  one.reset();
  EXPECT_GT(ResidentBytes(), before + 150 * kMiB);
  other.reset();
  EXPECT_LT(ResidentBytes(), before + 50 * kMiB);
  UseBlocks(50);
  EXPECT_LT(ResidentBytes(), before + 100 * kMiB) << "malloc keeps 64 MiB";
}

TEST(FreedMemory, IsTheUsersIfTheEnvironmentSetsMalloc) {
  const auto kept = [] {
    const FreedMemoryKeeper keeper;
    const int64_t before = ResidentBytes();
    UseBlocks(50);
    return ResidentBytes() - before;
  };
  EXPECT_GT(kept(), 150 * kMiB);
  const auto kept_with = [&](const char* name, const char* value) {
    setenv(name, value, 1);
    const int64_t bytes = kept();
    unsetenv(name);
    return bytes;
  };
  EXPECT_LT(kept_with("MALLOC_TRIM_THRESHOLD_", "131072"), 100 * kMiB);
  EXPECT_LT(kept_with("MALLOC_MMAP_THRESHOLD_", "131072"), 100 * kMiB);
  EXPECT_LT(kept_with("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=131072"), 100 * kMiB);
  EXPECT_GT(kept_with("GLIBC_TUNABLES", "glibc.malloc.check=0"), 150 * kMiB);
}

#endif

}  // namespace
}  // namespace psgd
