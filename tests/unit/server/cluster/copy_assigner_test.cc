// Three servers that report by hand, without a run store: what is decided may be announced at once,
// or as late as a test wants.
#include "server/cluster/copy_assigner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr Duration kSilence = std::chrono::seconds(1);
constexpr Duration kLost = std::chrono::seconds(10);

RunServer Numbered(uint32_t number) {
  RunServer server;
  server.set_server(number);
  server.set_name(absl::StrCat("m", number));
  server.set_address(absl::StrCat("host-", number, ":7070"));
  server.set_identity(100 + number);
  return server;
}

// One shard; server 1 leads it, and servers 1 to `servers` have copies in sync.
RunRecord RecordOn(uint32_t servers) {
  RunRecord record;
  record.set_run_id("run-id");
  record.set_epoch(1);
  record.set_leader(1);
  record.set_next_server(servers + 1);
  record.set_has_plan(true);
  ShardCopies* const shard = record.add_shards();
  shard->set_epoch(1);
  shard->set_leader(1);
  for (uint32_t server = 1; server <= servers; ++server) {
    *record.add_servers() = Numbered(server);
    shard->add_in_sync(server);
    shard->add_copies(server);
  }
  return record;
}

CopyState Leading(uint64_t epoch) {
  CopyState copy;
  copy.set_epoch(epoch);
  copy.set_leads(true);
  copy.set_endpoint("tcp://somewhere:1");
  return copy;
}

CopyState Following(uint64_t epoch) {
  CopyState copy;
  copy.set_epoch(epoch);
  return copy;
}

CopyState FromDisk(uint64_t entries) {
  CopyState copy;
  copy.set_entries(entries);
  return copy;
}

// It has the pushes of a worker up to that clock.
CopyState FromDisk(uint32_t shard, uint64_t entries, uint64_t clock) {
  CopyState copy = FromDisk(entries);
  copy.set_shard(shard);
  MemberClock* const worker = copy.add_clocks();
  worker->mutable_key()->set_incarnation(1);
  worker->set_clock(clock);
  worker->set_pushed(true);
  return copy;
}

CopyState Of(uint32_t shard, CopyState copy) {
  copy.set_shard(shard);
  return copy;
}

class CopyAssignerTest : public testing::Test {
 protected:
  void Make(const RunRecord& record, std::optional<Duration> lost_after = std::nullopt,
            uint32_t replaced = 0) {
    ASSERT_TRUE(CheckCopies(record).ok());
    assigner_.emplace(CopyAssignerOptions{2, kSilence, lost_after, replaced}, record, now_);
  }

  // The server reports that copy; none: it has nothing.
  absl::Status Hear(uint32_t server, std::optional<CopyState> copy,
                    const std::string& run_id = "run-id") {
    ServerState state;
    state.set_run_id(run_id);
    *state.mutable_self() = Numbered(server);
    if (copy) *state.add_copies() = *copy;
    return assigner_->OnState(server, state, now_, &news_);
  }
  void HearAll(uint32_t server, const std::vector<CopyState>& copies) {
    ServerState state;
    state.set_run_id("run-id");
    *state.mutable_self() = Numbered(server);
    for (const CopyState& copy : copies) *state.add_copies() = copy;
    ASSERT_TRUE(assigner_->OnState(server, state, now_, &news_).ok());
  }
  // The first error, if there is one.
  absl::Status Settle() {
    assigner_->Tick(now_);
    absl::Status settled;
    for (int s = 0; s < assigner_->record().shards_size(); ++s) {
      settled.Update(assigner_->Settle(static_cast<uint32_t>(s), now_, &news_));
    }
    assigner_->Balance(&news_);
    return settled;
  }
  // By server: what it is told, if the record may be announced as it is now.
  std::map<uint32_t, Assignment> Announce() {
    return Announce(assigner_->record(), assigner_->MarkNow());
  }
  std::map<uint32_t, Assignment> Announce(const RunRecord& record, const CopyAssigner::Mark& mark) {
    ServerEffects effects;
    assigner_->Assign(record, mark, Assignment(), &effects);
    std::map<uint32_t, Assignment> told;
    for (const ServerEffect& effect : effects) {
      const auto& sent = std::get<effect::SendAssignment>(effect);
      EXPECT_EQ(sent.link, sent.assignment.server());
      told[sent.assignment.server()] = sent.assignment;
    }
    return told;
  }
  const ShardCopies& shard() const { return assigner_->record().shards(0); }
  std::vector<uint32_t> copies() const {
    return {shard().copies().begin(), shard().copies().end()};
  }
  std::vector<uint32_t> gone() const {
    std::vector<uint32_t> gone;
    for (const RunServer& server : assigner_->record().servers())
      if (server.gone()) gone.push_back(server.server());
    return gone;
  }
  std::vector<uint32_t> in_sync() const {
    return {shard().in_sync().begin(), shard().in_sync().end()};
  }

  Time now_ = std::chrono::hours(1);
  std::optional<CopyAssigner> assigner_;
  CopyAssigner::News news_;
};

TEST_F(CopyAssignerTest, AServerThatJoinsTakesTheCopyOfOneThatIsGone) {
  Make(RecordOn(2));
  ASSERT_TRUE(Hear(1, Leading(1)).ok());
  ASSERT_TRUE(Hear(2, Following(1)).ok());
  ASSERT_TRUE(Settle().ok());
  for (int i = 0; i < 10; ++i, now_ += kSilence / 8) {
    ASSERT_TRUE(Hear(1, Leading(1)).ok());
    ASSERT_TRUE(Hear(3, std::nullopt).ok());
    ASSERT_TRUE(Settle().ok());
  }
  EXPECT_FALSE(assigner_->IsHere(2));
  EXPECT_THAT(assigner_->links(), ElementsAre(1, 3));
  EXPECT_THAT(copies(), UnorderedElementsAre(1, 3));
  EXPECT_THAT(in_sync(), ElementsAre(1));
  EXPECT_THAT(gone(), ElementsAre(2));
  ASSERT_TRUE(Hear(3, Following(1)).ok());
  CopyState leading = Leading(1);
  CopyState::CaughtUp* const caught_up = leading.add_caught_up();
  caught_up->set_server(3);
  caught_up->set_copy(IdOf(shard(), 3) + 1);  // another copy than the one that server 3 has now
  ASSERT_TRUE(Hear(1, leading).ok());
  ASSERT_TRUE(Settle().ok());
  EXPECT_THAT(in_sync(), ElementsAre(1));
  caught_up->set_copy(IdOf(shard(), 3));
  ASSERT_TRUE(Hear(1, leading).ok());
  ASSERT_TRUE(Settle().ok());
  EXPECT_THAT(in_sync(), UnorderedElementsAre(1, 3));
  EXPECT_THAT(news_, ElementsAre("server 3 (m3) joined"));
}

// Whatever it hears first afterwards.
TEST_F(CopyAssignerTest, NobodyIsGoneBecauseTheRunsLeaderStoodStill) {
  Make(RecordOn(2));
  ASSERT_TRUE(Hear(1, Leading(1)).ok());
  ASSERT_TRUE(Hear(2, Following(1)).ok());
  ASSERT_TRUE(Hear(3, std::nullopt).ok());
  ASSERT_TRUE(Settle().ok());
  now_ += 5 * kSilence;
  assigner_->OnLinkGone(3, now_);
  ASSERT_TRUE(assigner_->Settle(0, now_, &news_).ok());
  EXPECT_THAT(copies(), UnorderedElementsAre(1, 2));
  EXPECT_THAT(in_sync(), UnorderedElementsAre(1, 2));
}

// A process that dies breaks its links, and one that lives connects again.
TEST_F(CopyAssignerTest, AServerWhoseLinkBrokeIsReplacedAfterAPartOfTheSilence) {
  for (const bool comes_back : {false, true}) {
    Make(RecordOn(2));
    ASSERT_TRUE(Hear(1, Leading(1)).ok());
    ASSERT_TRUE(Hear(2, Following(1)).ok());
    ASSERT_TRUE(Settle().ok());
    assigner_->OnLinkGone(1, now_);
    if (comes_back) {
      ASSERT_TRUE(Hear(1, Leading(1)).ok());
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(shard().leader(), 1u) << i;
      now_ += kSilence / 12;
      ASSERT_TRUE(Hear(2, Following(1)).ok());
      ASSERT_TRUE(Settle().ok());
    }
    EXPECT_EQ(shard().leader(), comes_back ? 1u : 2u);
  }
}

// Only a lead is given to another live copy so soon. What cannot be taken back waits.
TEST_F(CopyAssignerTest, AServerWhoseLinkBrokeKeepsItsCopyForTheWholeSilence) {
  for (const bool alone : {false, true}) {
    Make(RecordOn(alone ? 1 : 2), /*lost_after=*/kSilence / 4);
    ASSERT_TRUE(Hear(1, Leading(1)).ok());
    if (!alone) {
      ASSERT_TRUE(Hear(2, Following(1)).ok());
    }
    ASSERT_TRUE(Settle().ok());
    assigner_->OnLinkGone(alone ? 1 : 2, now_);
    for (int i = 0; i < 11; ++i) {
      now_ += kSilence / 12;
      if (!alone) {
        ASSERT_TRUE(Hear(1, Leading(1)).ok());
      }
      ASSERT_TRUE(Settle().ok()) << "of a run in memory";
      EXPECT_EQ(copies().size(), alone ? 1u : 2u);
    }
  }
}

// After a standstill the others need time to connect again, because they gave up their links.
TEST_F(CopyAssignerTest, AServerWhoseLinkBrokeInAStandstillHasTimeToReturn) {
  Make(RecordOn(2));
  ASSERT_TRUE(Hear(1, Leading(1)).ok());
  ASSERT_TRUE(Hear(2, Following(1)).ok());
  ASSERT_TRUE(Settle().ok());
  now_ += 5 * kSilence;
  assigner_->OnLinkGone(1, now_);
  for (int i = 0; i < 4; ++i) {
    now_ += kSilence / 12;
    ASSERT_TRUE(Hear(2, Following(1)).ok());
    ASSERT_TRUE(Settle().ok());
  }
  EXPECT_EQ(shard().leader(), 1u);
}

// A run whose machines come and go for weeks keeps a short record.
TEST_F(CopyAssignerTest, OnlyTheLastServersThatAreGoneAreKept) {
  Make(RecordOn(1));
  for (uint32_t joins = 2; joins < 102; ++joins) {
    ASSERT_TRUE(Hear(1, Leading(1)).ok());
    ASSERT_TRUE(Hear(joins, std::nullopt).ok());
    ASSERT_TRUE(Settle().ok());
    assigner_->OnLinkGone(joins, now_);
    for (int i = 0; i < 10; ++i, now_ += kSilence / 8) {
      ASSERT_TRUE(Hear(1, Leading(1)).ok());
      ASSERT_TRUE(Settle().ok());
    }
  }
  EXPECT_LT(assigner_->record().servers_size(), 20);
  EXPECT_THAT(gone(), testing::Contains(101));
  // One that comes back is of the run again, as the server that it was or as a new one.
  ASSERT_TRUE(Hear(101, std::nullopt).ok());
  ASSERT_TRUE(Hear(2, std::nullopt).ok());
  EXPECT_THAT(gone(), testing::Not(testing::Contains(101)));
  EXPECT_EQ(news_.back(), "server 102 (m2) joined");
  EXPECT_THAT(assigner_->links(), UnorderedElementsAre(1, 2, 101));
  ASSERT_TRUE(Settle().ok());
  EXPECT_TRUE(CheckCopies(assigner_->record()).ok());
}

TEST_F(CopyAssignerTest, AServerIsRefusedThatIsOfAnotherRunOrComesAfterTheEnd) {
  Make(RecordOn(2));
  EXPECT_TRUE(absl::IsFailedPrecondition(Hear(3, std::nullopt, "other-id")));
  EXPECT_EQ(assigner_->changes(), 0u);
  assigner_->EndRun();
  EXPECT_TRUE(absl::IsFailedPrecondition(Hear(3, std::nullopt)));
  EXPECT_TRUE(Hear(2, Following(1)).ok());
  EXPECT_EQ(assigner_->record().servers_size(), 2);
}

TEST_F(CopyAssignerTest, AServerIsToldOnceAndOnlyAfterItsArrivalIsStored) {
  Make(RecordOn(2));
  const RunRecord before = assigner_->record();
  const CopyAssigner::Mark mark = assigner_->MarkNow();
  ASSERT_TRUE(Hear(1, Leading(1)).ok());
  EXPECT_THAT(Announce(before, mark), IsEmpty());
  EXPECT_TRUE(Announce().contains(1));
  EXPECT_THAT(Announce(), IsEmpty());
  // A new link hears it again.
  assigner_->OnLinkGone(1, now_);
  EXPECT_FALSE(assigner_->IsHere(1));
  ASSERT_TRUE(Hear(1, Leading(1)).ok());
  EXPECT_TRUE(Announce().contains(1));
}

// All machines lost power. The copy with most entries has everything that was acknowledged.
TEST_F(CopyAssignerTest, OfCopiesReadFromDisksTheLongestLeadsUnderANewEpoch) {
  Make(RecordOn(2));
  ASSERT_TRUE(Hear(1, FromDisk(7)).ok());
  ASSERT_TRUE(Settle().ok());
  EXPECT_EQ(shard().epoch(), 1u);  // server 2 may still come
  ASSERT_TRUE(Hear(2, FromDisk(9)).ok());
  const RunRecord before = assigner_->record();
  const CopyAssigner::Mark mark = assigner_->MarkNow();
  ASSERT_TRUE(Settle().ok());
  EXPECT_EQ(shard().leader(), 2u);
  EXPECT_EQ(shard().epoch(), 2u);
  EXPECT_THAT(in_sync(), ElementsAre(2));
  EXPECT_TRUE(assigner_->IsLive(2, 0));
  EXPECT_EQ(assigner_->FindLeading(shard(), 0), nullptr);  // it does not say so yet
  // Neither leads nor follows before the decision is stored.
  for (const auto& [server, told] : Announce(before, mark)) {
    EXPECT_EQ(told.copies(0).epoch(), 0u) << server;
  }
  EXPECT_EQ(Announce()[2].copies(0).epoch(), 2u);
}

// A leading copy that was never told to go on alone has acknowledged nothing alone.
TEST_F(CopyAssignerTest, ACopyIsInSyncAgainIfTheLeaderWasNeverToldToGoOnWithoutIt) {
  for (const bool told : {false, true}) {
    for (const bool restarted : {false, true}) {
      Make(RecordOn(2));
      CopyState asks = Leading(1);
      asks.set_entries(30);
      asks.add_silent(2);
      ASSERT_TRUE(Hear(2, Following(1)).ok());
      ASSERT_TRUE(Hear(1, asks).ok());
      ASSERT_TRUE(Settle().ok());
      ASSERT_THAT(in_sync(), ElementsAre(1));
      if (told) Announce();
      if (restarted) {
        ASSERT_TRUE(Hear(2, FromDisk(30)).ok());
        ASSERT_TRUE(Settle().ok());
        ASSERT_TRUE(Hear(2, Following(1)).ok());
      }
      assigner_->OnLinkGone(1, now_);
      ASSERT_TRUE(Hear(1, FromDisk(8)).ok());  // its machine lost power
      const absl::Status settled = Settle();
      EXPECT_EQ(absl::IsDataLoss(settled), told || restarted) << settled;
      if (!told && !restarted) {
        EXPECT_EQ(shard().leader(), 2u);
      }
    }
  }
}

TEST_F(CopyAssignerTest, AShortJournalLosesTheShard) {
  RunRecord record = RecordOn(1);
  record.mutable_shards(0)->set_entries(8);
  Make(record);
  ASSERT_TRUE(Hear(1, FromDisk(7)).ok());
  EXPECT_TRUE(absl::IsDataLoss(Settle()));
  EXPECT_EQ(shard().epoch(), 1u);
}

TEST_F(CopyAssignerTest, AShortJournalWaitsForACopyInSyncThatIsAway) {
  RunRecord record = RecordOn(2);
  record.mutable_shards(0)->set_entries(8);
  Make(record);
  ASSERT_TRUE(Hear(1, FromDisk(7)).ok());
  // Until server 2 is not expected any more.
  for (const Time end = now_ + 2 * kSilence; now_ < end; now_ += kSilence / 8)
    assigner_->Tick(now_);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Hear(1, FromDisk(7)).ok());
    ASSERT_TRUE(Settle().ok());
    EXPECT_EQ(shard().epoch(), 1u);
    EXPECT_THAT(news_, ElementsAre(HasSubstr("another copy of shard 0 must come: the journal")));
    EXPECT_THAT(assigner_->LacksItsEnd(0), HasSubstr("its end is gone"));
  }
  ASSERT_TRUE(Hear(2, FromDisk(8)).ok());
  ASSERT_TRUE(Settle().ok());
  EXPECT_EQ(shard().leader(), 2u);
  EXPECT_EQ(assigner_->LacksItsEnd(0), "");
}

// Both journals that server 1 read are compared. Only that of shard 1 is short, and another server
// has a copy of it.
TEST_F(CopyAssignerTest, AShortJournalOfOneShardDoesNotKeepAnotherFromGoingOn) {
  for (const bool goes_on : {false, true}) {
    RunRecord record = RecordOn(2);
    const ShardCopies both = record.shards(0);
    *record.add_shards() = both;
    record.mutable_shards(0)->mutable_in_sync()->Truncate(1);
    Make(record);
    HearAll(1, {FromDisk(0, 90, 50), FromDisk(1, 60, 10)});
    if (goes_on) {
      HearAll(2, {Of(1, Following(1))});
    } else {
      HearAll(2, {FromDisk(1, 90, 50)});
    }
    const absl::Status settled = Settle();
    EXPECT_TRUE(settled.ok()) << settled;
    EXPECT_EQ(assigner_->record().shards(0).leader(), 1u);
    EXPECT_EQ(assigner_->record().shards(0).epoch(), 2u);
    EXPECT_EQ(assigner_->record().shards(1).leader(), 2u);
  }
}

TEST_F(CopyAssignerTest, AShortJournalIsComparedWithThoseOfOtherServers) {
  RunRecord record = RecordOn(2);
  const ShardCopies both = record.shards(0);
  *record.add_shards() = both;
  record.mutable_shards(1)->set_leader(2);
  record.mutable_shards(0)->mutable_in_sync()->Truncate(1);
  Make(record);
  HearAll(1, {FromDisk(0, 90, 10), FromDisk(1, 60, 50)});
  HearAll(2, {FromDisk(1, 60, 50)});
  EXPECT_TRUE(absl::IsDataLoss(Settle()));
}

// The longest copy may be short as well.
TEST_F(CopyAssignerTest, ACopyFromADiskThatLacksItsEndIsNotPromoted) {
  RunRecord record = RecordOn(2);
  const ShardCopies both = record.shards(0);
  *record.add_shards() = both;
  Make(record);
  HearAll(1, {FromDisk(0, 80, 48), FromDisk(1, 50, 8)});
  HearAll(2, {FromDisk(0, 90, 50), FromDisk(1, 60, 10)});
  const absl::Status settled = Settle();
  EXPECT_TRUE(absl::IsDataLoss(settled)) << settled;
  EXPECT_THAT(std::string(settled.message()), HasSubstr("the journal of shard 1"));
  EXPECT_EQ(assigner_->record().shards(0).leader(), 2u);
  EXPECT_EQ(assigner_->record().shards(1).leader(), 1u);
}

TEST_F(CopyAssignerTest, OnlyCopiesInMemoryAreLostWithTime) {
  for (const bool in_memory : {false, true}) {
    Make(RecordOn(2), in_memory ? std::optional(kLost) : std::nullopt);
    absl::Status settled;
    for (const Time end = now_ + kLost - kSilence; now_ < end; now_ += kSilence / 8) {
      ASSERT_TRUE(Settle().ok());
    }
    for (const Time end = now_ + 2 * kSilence; now_ < end; now_ += kSilence / 8) settled = Settle();
    EXPECT_EQ(absl::IsDataLoss(settled), in_memory) << settled;
    if (in_memory) {
      EXPECT_THAT(std::string(settled.message()), HasSubstr("cluster.deadline"));
    }
  }
}

TEST_F(CopyAssignerTest, AShardMovesWhereItIsAskedTo) {
  Make(RecordOn(2));
  ASSERT_TRUE(Hear(1, Leading(1)).ok());
  ASSERT_TRUE(Hear(2, Following(1)).ok());
  ASSERT_TRUE(Settle().ok());
  RebalanceRequest request;
  RebalanceRequest::Move* const move = request.add_moves();
  move->set_server(3);
  EXPECT_TRUE(absl::IsNotFound(assigner_->Rebalance(request).status()));
  move->set_shard(1);
  move->set_server(2);
  EXPECT_TRUE(absl::IsNotFound(assigner_->Rebalance(request).status()));
  move->set_shard(0);
  const auto reply = assigner_->Rebalance(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->owners(), ElementsAre(2));
  ASSERT_TRUE(Settle().ok());
  EXPECT_EQ(shard().leader(), 2u);
  EXPECT_EQ(shard().epoch(), 2u);
  EXPECT_THAT(in_sync(), UnorderedElementsAre(1, 2));
  EXPECT_THAT(news_, ElementsAre("shard 0 moved from server 1 to server 2"));
}

TEST_F(CopyAssignerTest, AReplacedLeaderIsNotWaitedForAgain) {
  for (const bool replaced : {false, true}) {
    Make(RecordOn(2), std::nullopt, replaced ? 1 : 0);
    ASSERT_TRUE(Hear(2, Following(1)).ok());
    ASSERT_TRUE(Settle().ok());
    EXPECT_EQ(shard().leader(), replaced ? 2u : 1u);
  }
}

// The replaced server may live, cut off from the run store alone.
TEST_F(CopyAssignerTest, ACopyFromADiskWaitsForTheReplacedLeader) {
  Make(RecordOn(2), std::nullopt, 1);
  ASSERT_TRUE(Hear(2, FromDisk(10)).ok());
  ASSERT_TRUE(Settle().ok());
  EXPECT_EQ(shard().leader(), 1u);
  now_ += kSilence / 8;
  ASSERT_TRUE(Hear(1, Leading(1)).ok());
  ASSERT_TRUE(Hear(2, FromDisk(10)).ok());
  ASSERT_TRUE(Settle().ok());
  EXPECT_EQ(shard().leader(), 1u);
  EXPECT_EQ(shard().epoch(), 1u);
}

// Its disk is full, for example.
TEST_F(CopyAssignerTest, ACopyInTroubleGivesTheLeadToOneInSync) {
  Make(RecordOn(2));
  CopyState troubled = Leading(1);
  troubled.set_trouble("no space left");
  for (int i = 0; i < 10; ++i, now_ += kSilence / 8) {
    const bool for_long = i > 8;
    ASSERT_TRUE(Hear(1, i == 0 ? Leading(1) : troubled).ok());
    ASSERT_TRUE(Hear(2, Following(1)).ok());
    ASSERT_TRUE(Settle().ok());
    EXPECT_EQ(shard().leader(), for_long ? 2u : 1u) << i;
  }
  EXPECT_THAT(in_sync(), ElementsAre(2));
}

TEST_F(CopyAssignerTest, ACopyInTroubleLeadsOnIfNoOtherCan) {
  Make(RecordOn(2));
  CopyState troubled = Leading(1), other = Following(1);
  troubled.set_trouble("no space left");
  other.set_trouble("no space left");
  for (int i = 0; i < 20; ++i, now_ += kSilence / 8) {
    ASSERT_TRUE(Hear(1, troubled).ok());
    ASSERT_TRUE(Hear(2, other).ok());
    ASSERT_TRUE(Settle().ok());
    EXPECT_EQ(shard().leader(), 1u);
  }
}

// Before that, there are no weights that a copy could have.
TEST_F(CopyAssignerTest, CopiesAreMadeOnceTrainingBegins) {
  RunRecord record = RecordOn(1);
  record.set_has_plan(false);
  Make(record);
  ASSERT_TRUE(Hear(1, Leading(1)).ok());
  ASSERT_TRUE(Hear(2, std::nullopt).ok());
  ASSERT_TRUE(Settle().ok());
  EXPECT_EQ(shard().endpoint(), "tcp://somewhere:1");
  EXPECT_THAT(copies(), ElementsAre(1));
  EXPECT_TRUE(Announce()[1].copies(0).fresh());
  assigner_->BeginTraining();
  ASSERT_TRUE(Settle().ok());
  EXPECT_THAT(copies(), ElementsAre(1, 2));
  EXPECT_FALSE(Announce()[1].copies(0).fresh());
}

}  // namespace
}  // namespace psgd
