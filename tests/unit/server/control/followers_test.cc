// What a leader knows of its followers, and the journal that waits for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/control/chain_keeper.h"
#include "server/control/followed_run.h"
#include "server/control/follower_set.h"
#include "server/control/replicated_journal.h"
#include "server/durability/journal_format.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr Duration kNow{0};
constexpr Duration kPatience = std::chrono::milliseconds(50);

Chain::Member MemberOf(uint32_t replica, uint64_t identity = 7) {
  Chain::Member member;
  member.set_replica(replica);
  member.set_address("host:" + std::to_string(replica));
  member.set_identity(identity);
  return member;
}

std::shared_ptr<const LogPart> PartOf(uint64_t first, int entries) {
  auto part = std::make_shared<LogPart>();
  part->mutable_shard()->mutable_entries()->set_first(first);
  for (int i = 0; i < entries; ++i) part->mutable_shard()->mutable_entries()->add_values("entry");
  return part;
}

TEST(FollowerLog, GivesPartsInOrderAndKnowsHowFarTheFollowerIs) {
  FollowerLog log(10);
  EXPECT_FALSE(log.caught_up()) << "it has not said that it has what it began with";
  log.Written(10);
  EXPECT_TRUE(log.caught_up());
  log.Add(PartOf(11, 2), 12);
  log.Add(PartOf(13, 1), 13);
  EXPECT_FALSE(log.caught_up());
  EXPECT_GT(log.bytes_behind(), 0u);
  EXPECT_EQ(log.Next(kNow)->shard().entries().first(), 11u);
  EXPECT_EQ(log.Next(kNow)->shard().entries().first(), 13u);
  EXPECT_EQ(log.Next(kNow), nullptr);
  log.Written(12);
  EXPECT_TRUE(log.WaitWritten(12, kNow));
  EXPECT_FALSE(log.WaitWritten(13, kNow));
  log.Written(13);
  EXPECT_TRUE(log.caught_up());
  EXPECT_EQ(log.bytes_behind(), 0u);
}

TEST(FollowerLog, PassesOverWhatItBeganWith) {
  FollowerLog log(10);
  log.Add(PartOf(9, 2), 10);
  EXPECT_EQ(log.Next(kNow), nullptr);
}

TEST(FollowerLog, OfAFollowerThatFallsTooFarBehindIsClosed) {
  FollowerLog log(0);
  auto part = std::make_shared<LogPart>();
  part->mutable_shard()->mutable_pair()->set_value(std::string(64 << 20, 'x'));
  for (uint64_t i = 1; i <= 8; ++i) log.Add(part, i);
  EXPECT_TRUE(log.closed());
  EXPECT_EQ(log.Next(kNow), nullptr);
  EXPECT_FALSE(log.WaitWritten(0, kNow));
}

class FollowerSetTest : public testing::Test {
 protected:
  // Connects both logs of a run with one shard.
  std::vector<std::shared_ptr<FollowerLog>> Connect(uint32_t replica) {
    std::vector<std::shared_ptr<FollowerLog>> logs;
    for (uint32_t log = 0; log <= set_->coordinator_log(); ++log) {
      logs.push_back(std::make_shared<FollowerLog>(0));
      EXPECT_TRUE(set_->Connect(MemberOf(replica), log, logs.back()).ok());
    }
    return logs;
  }

  const std::shared_ptr<FollowerSet> set_ = std::make_shared<FollowerSet>(1, kPatience);
};

TEST_F(FollowerSetTest, WaitsForNobodyUntilAFollowerIsRequired) {
  EXPECT_TRUE(set_->WaitWritten(0, 7).ok());
  const auto logs = Connect(2);
  set_->Publish(0, PartOf(1, 1), 1);
  EXPECT_TRUE(set_->WaitWritten(0, 1).ok());
  set_->Require(MemberOf(2));
  const absl::Status waiting = set_->WaitWritten(0, 1);
  EXPECT_TRUE(absl::IsUnavailable(waiting)) << waiting;
  EXPECT_THAT(std::string(waiting.message()),
              HasSubstr("follower 2 at host:2 has not written it yet"));
  std::thread follower([&] { logs[0]->Written(1); });
  EXPECT_TRUE(set_->WaitWritten(0, 1).ok() || set_->WaitWritten(0, 1).ok());
  follower.join();
}

TEST_F(FollowerSetTest, AFollowerIsReadyOnceAllItsLogsHaveCaughtUp) {
  EXPECT_TRUE(set_->Connect(MemberOf(2), 0, std::make_shared<FollowerLog>(0)).ok());
  EXPECT_THAT(set_->NotYetIn(Chain()), IsEmpty()) << "one log of two is connected";
  const auto logs = Connect(2);
  EXPECT_THAT(set_->NotYetIn(Chain()), SizeIs(1));
  EXPECT_THAT(set_->Ready(), IsEmpty());
  logs[0]->Written(0);
  EXPECT_THAT(set_->Ready(), IsEmpty());
  logs[1]->Written(0);
  ASSERT_THAT(set_->Ready(), SizeIs(1));
  EXPECT_EQ(set_->Ready()[0].replica(), 2u);
  set_->Require(MemberOf(2));
  EXPECT_THAT(set_->Ready(), IsEmpty());
}

TEST_F(FollowerSetTest, OneThatIsGoneIsStillWaitedForUntilItIsForgotten) {
  const auto logs = Connect(2);
  for (const auto& log : logs) log->Written(0);
  set_->Require(MemberOf(2));
  EXPECT_THAT(set_->Missing(), IsEmpty());
  set_->Disconnect(2, 0, logs[0].get());
  ASSERT_THAT(set_->Missing(), SizeIs(1));
  EXPECT_THAT(std::string(set_->WaitWritten(0, 1).message()), HasSubstr("is not connected"));
  set_->Forget(2);
  EXPECT_TRUE(logs[1]->closed());
  EXPECT_TRUE(set_->WaitWritten(0, 1).ok());
  EXPECT_THAT(set_->Status(), IsEmpty());
}

// Only a number would be enough for anybody to throw out the one that has it, which would take over
// all the same.
TEST_F(FollowerSetTest, ANumberIsOneServers) {
  const auto store = std::make_shared<RecordedChain>(Chain());
  ChainKeeper keeper(store, set_, 1);
  ASSERT_TRUE(keeper.Begin("host:1").ok());
  EXPECT_TRUE(keeper.BeginsAnew(MemberOf(2)).ok());
  const auto logs = Connect(2);
  const Chain::Member another = MemberOf(2, 8);
  const absl::Status connected = keeper.BeginsAnew(another);
  EXPECT_TRUE(absl::IsAlreadyExists(connected)) << connected;
  EXPECT_THAT(std::string(connected.message()), Not(HasSubstr("drop-follower")));
  for (const auto& log : logs) log->Written(0);
  ASSERT_TRUE(*keeper.TakeIn(set_->Ready().at(0)));
  EXPECT_EQ(keeper.chain().members(1).identity(), 7u);
  for (const absl::Status& refused :
       {keeper.BeginsAnew(another), keeper.BeginsAnew(MemberOf(2, 0)),
        set_->Connect(another, 0, std::make_shared<FollowerLog>(0))}) {
    EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("server 2 of this run is another one, at host:2"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("ps-ctl drop-follower 2"));
  }
  EXPECT_TRUE(IsIn(keeper.chain(), 2));
  EXPECT_FALSE(logs[0]->closed());
  // It knows who it is, after its death or a new leader's coming, too.
  const auto next = std::make_shared<FollowerSet>(1, kPatience);
  ChainKeeper successor(store, next, 1);
  successor.GoOn({keeper.chain(), 2});
  EXPECT_TRUE(absl::IsAlreadyExists(successor.BeginsAnew(another)));
  EXPECT_TRUE(successor.BeginsAnew(MemberOf(2)).ok());
  EXPECT_FALSE(IsIn(successor.chain(), 2));
  EXPECT_TRUE(successor.BeginsAnew(another).ok()) << "nobody has that number any more";
}

TEST_F(FollowerSetTest, OneThatIsRequiredMayLackWhatCameJustBefore) {
  const auto logs = Connect(2);
  for (const auto& log : logs) log->Written(0);
  set_->Publish(0, PartOf(1, 1), 1);
  EXPECT_TRUE(set_->WaitWritten(0, 1).ok()) << "nobody is waited for";
  EXPECT_FALSE(set_->HasAllFromBefore(2)) << "it is not required";
  set_->Require(MemberOf(2));
  EXPECT_TRUE(set_->IsRequired(2));
  EXPECT_FALSE(set_->HasAllFromBefore(2));
  set_->Publish(0, PartOf(2, 1), 2);
  logs[0]->Written(1);
  EXPECT_TRUE(set_->HasAllFromBefore(2)) << "what came after is waited for";
  set_->Disconnect(2, 0, logs[0].get());
  EXPECT_FALSE(set_->HasAllFromBefore(2));
}

// A worker that forgot it meanwhile would not find it if the leader died right after.
TEST_F(FollowerSetTest, WorkersAreToldOfOneWhileItIsTakenIn) {
  ChainKeeper keeper(std::make_shared<RecordedChain>(Chain()), set_, 1);
  ASSERT_TRUE(keeper.Begin("host:1").ok());
  const auto logs = Connect(2);
  for (const auto& log : logs) log->Written(0);
  ASSERT_THAT(set_->NotYetIn(keeper.chain()), SizeIs(1));
  set_->Publish(0, PartOf(1, 1), 1);
  ASSERT_FALSE(*keeper.TakeIn(MemberOf(2))) << "it lacks what came just before";
  ASSERT_THAT(set_->NotYetIn(keeper.chain()), SizeIs(1));
  logs[0]->Written(1);
  ASSERT_TRUE(*keeper.TakeIn(MemberOf(2)));
  EXPECT_THAT(set_->NotYetIn(keeper.chain()), IsEmpty()) << "the chain tells of it";
}

// Its own record decides that.
TEST_F(FollowerSetTest, OneIsShownInTheChainOnceItHasWrittenThatItIs) {
  const auto logs = Connect(2);
  Chain chain;
  *chain.add_members() = MemberOf(2);
  set_->NamedBy(1, chain);
  set_->Require(MemberOf(2));
  EXPECT_FALSE(set_->Status().at(0).in_chain()) << "nothing says so since it is waited for";
  set_->NamedBy(2, chain);
  set_->NamedBy(3, chain);
  logs[set_->coordinator_log()]->Written(1);
  EXPECT_FALSE(set_->Status().at(0).in_chain());
  logs[set_->coordinator_log()]->Written(2);
  EXPECT_TRUE(set_->Status().at(0).in_chain());
  set_->Disconnect(2, 0, logs[0].get());
  set_->Disconnect(2, 1, logs[1].get());
  EXPECT_TRUE(set_->Status().at(0).in_chain());
}

TEST_F(FollowerSetTest, OneThatIsNotThereOrWritesNothingIsGone) {
  const Duration patience = std::chrono::milliseconds(2);
  const auto passed = [&] { std::this_thread::sleep_for(2 * patience); };
  const auto logs = Connect(2);
  set_->Publish(0, PartOf(1, 1), 1);
  passed();
  EXPECT_THAT(set_->Gone(patience), IsEmpty()) << "nobody is waited for";
  set_->Require(MemberOf(2));
  EXPECT_THAT(set_->Gone(patience), SizeIs(1)) << "it has written nothing of it";
  logs[0]->Written(1);
  EXPECT_THAT(set_->Gone(std::chrono::minutes(1)), IsEmpty());
  set_->Disconnect(2, 1, logs[1].get());
  EXPECT_THAT(set_->Gone(std::chrono::minutes(1)), IsEmpty()) << "not for long yet";
  passed();
  ASSERT_THAT(set_->Gone(patience), SizeIs(1));
  EXPECT_EQ(set_->Gone(patience)[0].replica(), 2u);
  EXPECT_TRUE(set_->Connect(MemberOf(2), 1, logs[1]).ok());
  EXPECT_THAT(set_->Gone(patience), IsEmpty());
}

TEST_F(FollowerSetTest, AConnectionThatWasReplacedTakesNothingAway) {
  const auto old = Connect(2);
  const auto now = Connect(2);
  EXPECT_TRUE(old[0]->closed());
  set_->Disconnect(2, 0, old[0].get());
  EXPECT_THAT(set_->NotYetIn(Chain()), SizeIs(1));
}

// Counts what is written to the leader's own disk, which can fail.
class LocalJournal final : public Journal {
 public:
  absl::Status Append(uint64_t first, std::span<const JournalEntry> entries) override {
    if (full) return absl::ResourceExhaustedError("no space");
    EXPECT_EQ(first, written + 1);
    written += entries.size();
    return absl::OkStatus();
  }
  absl::Status BeginLog(uint64_t) override { return absl::OkStatus(); }
  absl::Status SaveImage(const ShardImage&) override { return absl::OkStatus(); }
  absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>*) override { return ShardImage(); }
  absl::Status Replay(uint64_t, const std::function<absl::Status(const JournalEntry&)>&) override {
    return absl::OkStatus();
  }

  uint64_t written = 0;
  bool full = false;
};

class ReplicatedJournalTest : public FollowerSetTest {
 protected:
  ReplicatedJournalTest() {
    auto local = std::make_unique<LocalJournal>();
    local_ = local.get();
    journal_ = std::make_unique<ReplicatedJournal>(std::move(local), 0, set_);
  }

  LocalJournal* local_;
  std::unique_ptr<ReplicatedJournal> journal_;
  const std::vector<JournalEntry> two_ = std::vector<JournalEntry>(2);
};

TEST_F(ReplicatedJournalTest, WritesHereOnceAndWaitsForTheFollowerUntilItHasWritten) {
  const auto logs = Connect(2);
  set_->Require(MemberOf(2));
  EXPECT_TRUE(absl::IsUnavailable(journal_->Append(1, two_)));
  // Tried again, with one more.
  EXPECT_TRUE(absl::IsUnavailable(journal_->Append(1, std::vector<JournalEntry>(3))));
  EXPECT_EQ(local_->written, 3u);
  logs[0]->Written(3);
  EXPECT_TRUE(journal_->Append(1, std::vector<JournalEntry>(3)).ok());
  EXPECT_EQ(local_->written, 3u);
  const auto first = logs[0]->Next(kNow), second = logs[0]->Next(kNow);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_EQ(first->shard().entries().values_size(), 2);
  EXPECT_EQ(second->shard().entries().first(), 3u);
  EXPECT_TRUE(
      DecodeEntry(EncodeJournalKey(JournalKind::kEntry, 3), second->shard().entries().values(0))
          .ok());
}

TEST_F(ReplicatedJournalTest, AFollowerNeverHasWhatIsNotOnTheLeadersDisk) {
  const auto logs = Connect(2);
  local_->full = true;
  EXPECT_TRUE(absl::IsResourceExhausted(journal_->Append(1, two_)));
  EXPECT_EQ(logs[0]->Next(kNow), nullptr);
  local_->full = false;
  EXPECT_TRUE(journal_->Append(1, two_).ok());
  EXPECT_NE(logs[0]->Next(kNow), nullptr);
}

Chain ChainOf(const std::vector<uint32_t>& replicas) {
  Chain chain;
  chain.set_epoch(5);
  for (const uint32_t replica : replicas) chain.add_members()->set_replica(replica);
  return chain;
}

TEST(Chain, WhoTakesOverLeadsThoseBehindItAndNobodyElse) {
  const Chain chain = ChainOf({1, 2, 3});
  const Chain second = TakenOver(chain, 2);
  EXPECT_GT(second.epoch(), chain.epoch());
  ASSERT_EQ(second.members_size(), 2);
  EXPECT_EQ(second.members(0).replica(), 2u);
  EXPECT_EQ(second.members(1).replica(), 3u);
  EXPECT_EQ(TakenOver(chain, 3).members_size(), 1);
  EXPECT_TRUE(IsIn(chain, 3));
  EXPECT_FALSE(IsIn(second, 1));
  EXPECT_EQ(TakenOver(chain, 1).epoch(), 6u) << "it led before";
}

// None knows of the others, and whoever has the lower epoch is to give way.
TEST(Chain, OfSeveralThatTakeOverTheLastWinsWhateverTheOthersChange) {
  const Chain chain = ChainOf({1, 2, 3, 4});
  const Chain second = TakenOver(chain, 2), third = TakenOver(chain, 3);
  EXPECT_GT(second.epoch(), With(With(chain, MemberOf(5)), MemberOf(6)).epoch());
  EXPECT_GT(third.epoch(), second.epoch());
  EXPECT_GT(third.epoch(), With(Without(second, 3), MemberOf(5)).epoch());
  // One that heard of the takeover before it took over itself, and one that did not.
  EXPECT_EQ(TakenOver(second, 3).epoch(), third.epoch());
  EXPECT_GT(TakenOver(chain, 4).epoch(), TakenOver(second, 3).epoch());
}

}  // namespace
}  // namespace psgd
