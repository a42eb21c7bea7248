#include "experiment/cache_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

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

}  // namespace
}  // namespace psgd
