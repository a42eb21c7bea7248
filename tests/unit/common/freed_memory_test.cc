#include "common/freed_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace psgd {
namespace {

// Sanitizers have a malloc of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// Page faults while this thread makes, fills and frees blocks as large as messages.
int64_t FaultsOfBlocks() {
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  const int64_t before = faults();
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.emplace_back(new char[4 << 20]);
    std::memset(blocks.back().get(), 1, 4 << 20);
  }
  blocks.clear();
  return faults() - before;
}

TEST(FreedMemory, IsUsedAgain) {
  KeepFreedMemory();
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

#endif

}  // namespace
}  // namespace psgd
