#include "server/coordinator/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Duration kLease = std::chrono::seconds(10);
constexpr Time kStart = std::chrono::hours(1);

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// The members that are silent for too long by `end`, if the time passes in small steps.
std::vector<uint32_t> ExpiredBy(Membership& members, Time now, Time end) {
  while (now < end) {
    now = std::min<Time>(now + Milliseconds(100), end);
    (void)members.Expired(now);
  }
  return members.Expired(end);
}

TEST(Membership, GivesTheLowestFreeIdentityUnderANewIncarnation) {
  Membership members(kLease);
  EXPECT_EQ(members.Join("a", "cpu", kStart).record.key().worker(), 0u);
  EXPECT_EQ(members.Join("b", "cpu", kStart).record.key().worker(), 1u);
  EXPECT_EQ(members.Join("c", "cpu", kStart).record.key().worker(), 2u);
  members.Leave(1, "left");
  const MemberState& again = members.Join("d", "gpu 0", kStart);
  EXPECT_EQ(again.record.key().worker(), 1u);
  EXPECT_EQ(again.record.key().incarnation(), 2u);
  EXPECT_EQ(again.record.name(), "d");
  EXPECT_FALSE(again.record.registered());
  EXPECT_EQ(again.record.clock(), 0u);
}

TEST(Membership, GivesTheWantedIdentityIfItIsFree) {
  Membership members(kLease);
  EXPECT_EQ(members.Join("b", "cpu", kStart, 1).record.key().worker(), 1u);
  EXPECT_EQ(members.Join("c", "cpu", kStart, 1).record.key().worker(), 0u);
  EXPECT_EQ(members.Join("d", "cpu", kStart, 3).record.key().worker(), 3u);
  EXPECT_EQ(members.Join("e", "cpu", kStart).record.key().worker(), 2u);
  members.Leave(1, "left");
  const MemberState& again = members.Join("b", "cpu", kStart, 1);
  EXPECT_EQ(again.record.key().worker(), 1u);
  EXPECT_EQ(again.record.key().incarnation(), 2u);
}

TEST(Membership, IncarnationsOfAnotherServerAreNotReused) {
  Membership members(kLease, 1000);
  EXPECT_EQ(members.Join("a", "cpu", kStart).record.key().incarnation(), 1000u);
  members.Leave(0, "left");
  EXPECT_EQ(members.Join("a", "cpu", kStart).record.key().incarnation(), 1001u);
}

// Of many workers and tensors, choices would be most of the run's record.
TEST(Membership, ChoicesOfTheWorkerWhoseAreShownAreSaved) {
  Membership members(kLease);
  for (const char* parameter : {"", "a", "b"}) {
    MemberState& member = members.Join("w", "cpu", kStart);
    if (*parameter == 0) {
      members.Leave(0, "left");
    } else {
      member.record.mutable_choices()->add_tensors()->set_parameter(parameter);
    }
  }
  members.Join("d", "cpu", kStart).record.mutable_choices()->add_tensors()->set_parameter("c");
  CoordinatorRecord record;
  members.Save(&record);
  ASSERT_EQ(record.members_size(), 3);
  EXPECT_EQ(record.members(0).choices().tensors(0).parameter(), "a");
  EXPECT_FALSE(record.members(1).has_choices());
  EXPECT_FALSE(record.members(2).has_choices());
  Membership again(kLease);
  again.Restore(record, kStart);
  StatusReply before, after;
  members.Show(kStart, &before);
  again.Show(kStart, &after);
  EXPECT_EQ(after.choices().SerializeAsString(), before.choices().SerializeAsString());
}

TEST(Membership, TouchSaysWhoMayStillSpeak) {
  Membership members(kLease);
  const WorkerKey old = members.Join("a", "cpu", kStart).record.key();
  EXPECT_TRUE(members.Touch(old, kStart).ok());

  WorkerKey stranger;
  stranger.set_worker(9);
  stranger.set_incarnation(1);
  EXPECT_TRUE(absl::IsPermissionDenied(members.Touch(stranger, kStart).status()));
  WorkerKey later = old;
  later.set_incarnation(5);
  EXPECT_THAT(MessageOf(members.Touch(later, kStart).status()), HasSubstr("never joined"));

  members.Leave(0, "its lease ran out");
  EXPECT_THAT(MessageOf(members.Touch(old, kStart).status()), HasSubstr("its lease ran out"));
  members.Join("b", "cpu", kStart);
  const absl::Status replaced = members.Touch(old, kStart).status();
  EXPECT_TRUE(absl::IsPermissionDenied(replaced));
  EXPECT_THAT(MessageOf(replaced), HasSubstr("replaced by incarnation 2 (b)"));
}

TEST(Membership, ALeaseRunsFromTheLastWord) {
  Membership members(kLease);
  const WorkerKey a = members.Join("a", "cpu", kStart).record.key();
  members.Join("b", "cpu", kStart);
  EXPECT_THAT(ExpiredBy(members, kStart, kStart + kLease / 2), ElementsAre());
  EXPECT_TRUE(members.Touch(a, kStart + kLease / 2).ok());
  EXPECT_THAT(ExpiredBy(members, kStart + kLease / 2, kStart + kLease), ElementsAre());
  EXPECT_THAT(members.Expired(kStart + kLease + Duration(1)), ElementsAre(1));
  members.Leave(1, "expired");
  EXPECT_THAT(ExpiredBy(members, kStart + kLease, kStart + 2 * kLease), ElementsAre(0));
}

// A process that was stopped, or whose clock was set, could hear nobody. That is no silence of the
// workers.
TEST(Membership, TimeInWhichNobodyCouldBeHeardIsNoSilence) {
  for (const Duration step : {std::chrono::seconds(100), std::chrono::seconds(-100)}) {
    Membership members(kLease);
    const WorkerKey a = members.Join("a", "cpu", kStart).record.key();
    members.Join("b", "cpu", kStart);
    EXPECT_THAT(ExpiredBy(members, kStart, kStart + kLease / 2), ElementsAre());
    // One worker is heard at once, before leases are checked.
    const Time woken = kStart + kLease / 2 + step;
    EXPECT_TRUE(members.Touch(a, woken).ok());
    EXPECT_THAT(members.Expired(woken), ElementsAre());
    EXPECT_THAT(ExpiredBy(members, woken, woken + kLease / 5), ElementsAre());
    // The silence before it counts.
    EXPECT_THAT(ExpiredBy(members, woken + kLease / 5, woken + kLease / 2 + Milliseconds(1)),
                ElementsAre(1));
    EXPECT_THAT(ExpiredBy(members, woken + kLease / 2, woken + 2 * kLease), ElementsAre(0, 1));
  }
}

TEST(Membership, ReadyAreLiveAndRegistered) {
  Membership members(kLease);
  for (int i = 0; i < 3; ++i) members.Join("x", "cpu", kStart);
  EXPECT_THAT(members.Ready(), ElementsAre());
  for (const uint32_t worker : {0, 2}) members.Find(worker)->record.set_registered(true);
  EXPECT_THAT(members.Ready(), ElementsAre(0, 2));
  members.Leave(0, "left");
  EXPECT_THAT(members.Ready(), ElementsAre(2));
  members.Leave(77, "nobody");
}

}  // namespace
}  // namespace psgd
