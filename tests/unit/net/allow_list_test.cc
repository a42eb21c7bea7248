#include "net/allow_list.h"

#include <gtest/gtest.h>

#include "net/transport_security.h"

namespace psgd {
namespace {

TEST(AllowList, APassIsOneMembersAlone) {
  AllowList list;
  list.Admit(0, 5, {.curve_key = "a", .token = "A"});
  list.Admit(1, 6, {.curve_key = "b", .token = "B"});
  for (const char* pass : {"a", "A"}) {
    EXPECT_TRUE(list.Knows(pass));
    EXPECT_TRUE(list.Belongs(pass, 0, 5));
    EXPECT_FALSE(list.Belongs(pass, 1, 6));
    EXPECT_FALSE(list.Belongs(pass, 0, 4));
  }
  EXPECT_FALSE(list.Knows("c"));
  EXPECT_FALSE(list.Knows(""));
  EXPECT_FALSE(list.Belongs("", 0, 5));
}

TEST(AllowList, WhoeverLeavesIsForgotten) {
  AllowList list;
  list.Admit(0, 5, {.curve_key = "a", .token = "A"});
  list.Remove(0, 4);  // an earlier incarnation
  EXPECT_TRUE(list.Knows("a"));
  list.Remove(0, 5);
  EXPECT_FALSE(list.Knows("a"));
  EXPECT_FALSE(list.Knows("A"));
  EXPECT_EQ(list.members(), 0u);
}

TEST(AllowList, ANewIncarnationTakesThePlaceOfTheOld) {
  AllowList list;
  list.Admit(0, 5, {.curve_key = "a", .token = "A"});
  list.Admit(0, 6, {.curve_key = "b", .token = "B"});
  EXPECT_FALSE(list.Knows("a"));
  EXPECT_TRUE(list.Belongs("b", 0, 6));
  // Two workers joined with one key: the later join counts.
  list.Admit(1, 7, {.curve_key = "b", .token = "C"});
  EXPECT_TRUE(list.Belongs("b", 1, 7));
  EXPECT_FALSE(list.Knows("B"));
  EXPECT_EQ(list.members(), 1u);
}

TEST(CurveKeys, AreFreshAndLookLikeKeys) {
  const CurveKeys a = MakeCurveKeys();
  const CurveKeys b = MakeCurveKeys();
  EXPECT_NE(a.public_key, b.public_key);
  EXPECT_NE(MakeToken(), MakeToken());
  EXPECT_TRUE(IsCurveKey(a.public_key));
  for (const std::string& bad : {std::string(), std::string(39, 'a'), std::string(40, '"'),
                                 std::string(40, '0'), std::string(40, '\0'), a.public_key + "a"}) {
    EXPECT_FALSE(IsCurveKey(bad)) << bad;
  }
}

}  // namespace
}  // namespace psgd
