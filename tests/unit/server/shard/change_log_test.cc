#include "server/shard/change_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(ChangeLog, KnowsWhatEachVersionIsBehindIn) {
  ChangeLog log(1000, 5);
  EXPECT_THAT(log.Since(5), Optional(IsEmpty()));
  log.Add(6, {3, 64, 999});
  log.Add(8, {0, 64});
  log.Add(9, {});
  EXPECT_THAT(log.Since(5), Optional(ElementsAre(0, 3, 64, 999)));
  EXPECT_THAT(log.Since(6), Optional(ElementsAre(0, 64)));
  EXPECT_THAT(log.Since(7), Optional(ElementsAre(0, 64)));
  EXPECT_THAT(log.Since(8), Optional(IsEmpty()));
  EXPECT_THAT(log.Since(9), Optional(IsEmpty()));
}

TEST(ChangeLog, OfOtherVersionsItKnowsNothing) {
  ChangeLog log(1000, 5);
  log.Add(6, {1});
  EXPECT_EQ(log.Since(4), std::nullopt);
  EXPECT_EQ(log.Since(7), std::nullopt);
}

TEST(ChangeLog, ADenseUpdateIsForgottenAtOnce) {
  ChangeLog log(8, 0);
  log.Add(1, {1});
  log.AddAll(2);
  EXPECT_EQ(log.Since(1), std::nullopt);
  EXPECT_THAT(log.Since(2), Optional(IsEmpty()));
  log.Add(3, {0, 1, 2, 3, 4});  // more than half of the slice
  EXPECT_EQ(log.Since(2), std::nullopt);
  log.Add(4, {7});
  EXPECT_THAT(log.Since(3), Optional(ElementsAre(7)));
}

TEST(ChangeLog, TheOldestChangesAreForgottenFirst) {
  ChangeLog log(10, 0);
  log.Add(1, {1, 2});
  log.Add(2, {3, 4});
  log.Add(3, {5, 6});
  EXPECT_EQ(log.Since(0), std::nullopt);
  EXPECT_THAT(log.Since(1), Optional(ElementsAre(3, 4, 5, 6)));
}

}  // namespace
}  // namespace psgd
