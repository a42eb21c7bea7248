#include "common/suggest.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

const std::vector<std::string> kKeys = {"consistency", "compression", "cluster",
                                        "data",        "durability",  "lr"};

TEST(Suggest, FindsTheClosest) {
  EXPECT_EQ(Suggest("consistancy", kKeys), "; did you mean \"consistency\"?");
  EXPECT_EQ(Suggest("compresion", kKeys), "; did you mean \"compression\"?");
  EXPECT_EQ(Suggest("clutser", kKeys), "; did you mean \"cluster\"?");
  EXPECT_EQ(Suggest("DATA", kKeys), "; did you mean \"data\"?");
  EXPECT_EQ(Suggest("dta", kKeys), "; did you mean \"data\"?");
  EXPECT_EQ(Suggest("rl", kKeys), "; did you mean \"lr\"?");
}

TEST(Suggest, IsSilentWhenNothingIsClose) {
  EXPECT_EQ(Suggest("zebra", kKeys), "");
  EXPECT_EQ(Suggest("q", kKeys), "");
  EXPECT_EQ(Suggest("", kKeys), "");
  EXPECT_EQ(Suggest("data", {}), "");
  EXPECT_EQ(Suggest(std::string(1000000, 'c'), kKeys), "");
}

TEST(Suggest, TheFirstOfEquallyCloseWins) {
  EXPECT_EQ(Suggest("fp15", {"fp16", "fp14"}), "; did you mean \"fp16\"?");
}

}  // namespace
}  // namespace psgd
