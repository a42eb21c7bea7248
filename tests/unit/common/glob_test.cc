#include "common/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace psgd {
namespace {

TEST(GlobMatches, WholeNames) {
  EXPECT_TRUE(GlobMatches("fc*.weight", "fc1.weight"));
  EXPECT_TRUE(GlobMatches("fc*.weight", "fc.weight"));
  EXPECT_FALSE(GlobMatches("fc*.weight", "fc1.weight2"));
  EXPECT_FALSE(GlobMatches("fc*.weight", "xfc1.weight"));
  EXPECT_TRUE(GlobMatches("conv?.bias", "conv2.bias"));
  EXPECT_FALSE(GlobMatches("conv?.bias", "conv.bias"));
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("*a*b*", "xxaxbxaxxb"));
  EXPECT_FALSE(GlobMatches("", "a"));
  EXPECT_TRUE(GlobMatches("", ""));
  // The time is linear in practice, without an exponential search.
  EXPECT_FALSE(GlobMatches("*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

}  // namespace
}  // namespace psgd
