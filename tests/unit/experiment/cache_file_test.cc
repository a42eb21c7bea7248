#include "experiment/record/cache_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace psgd {
namespace {

TEST(CacheFile, LiesInTheUsersCacheFolder) {
  setenv("HOME", "/home/somebody", 1);
  setenv("XDG_CACHE_HOME", "/scratch/cache", 1);
  EXPECT_EQ(CacheFile("choices"), "/scratch/cache/psgd/choices");
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  EXPECT_EQ(CacheFile("choices"), "/home/somebody/.cache/psgd/choices");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(CacheFile("choices"), "/home/somebody/.cache/psgd/choices");
}

TEST(CacheFile, AServiceHasNone) {
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(CacheFile("choices"), "");
}

TEST(CacheFile, MayBeWrittenOrNot) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("psgd-cache-" + std::to_string(getpid()));
  EXPECT_TRUE(CanAppend((folder / "new" / "choices").string()));
  EXPECT_TRUE(std::filesystem::exists(folder / "new" / "choices"));
  EXPECT_FALSE(CanAppend((folder / "new" / "choices" / "below a file").string()));
  EXPECT_FALSE(CanAppend(folder.string()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace psgd
