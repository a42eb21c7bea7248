// Two copies of a shard as cores, whose messages the test carries.
#include "server/cluster/copy_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/server/cluster/fake_disk.h"
#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

using testing::Contains;
using testing::IsEmpty;

constexpr Duration kSilence = std::chrono::milliseconds(500);
constexpr Duration kTick = kSilence / 20;
constexpr uint32_t kElements = 1000;

Config ConfigOfRun() {
  Config config;
  config.mutable_consistency()->set_reduction(ConsistencyConfig::SUM);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  return config;
}

std::unique_ptr<DurableShard> FreshShard() {
  return std::make_unique<DurableShard>(DurableShardOptionsOf(ConfigOfRun(), 0, 1));
}

// Keeps nothing, and counts how often it is read.
class CountingJournal final : public Journal {
 public:
  explicit CountingJournal(int* reads) : reads_(reads) {}
  absl::Status Append(uint64_t, std::span<const JournalEntry>) override { return absl::OkStatus(); }
  absl::Status BeginLog(uint64_t) override { return absl::OkStatus(); }
  absl::Status SaveImage(const ShardImage&) override { return absl::OkStatus(); }
  absl::StatusOr<ShardImage> LoadImage(std::vector<std::string>*) override {
    ++*reads_;
    return absl::NotFoundError("nothing is kept");
  }
  absl::Status Replay(uint64_t, const std::function<absl::Status(const JournalEntry&)>&) override {
    return absl::OkStatus();
  }

 private:
  int* const reads_;
};

class CopyCoreTest : public testing::Test {
 protected:
  CopyCoreTest() { copies_[1] = std::make_unique<CopyCore>(Options(), FreshShard()); }

  CopyOptions Options() {
    CopyOptions options;
    options.silence = kSilence;
    options.kept = 4096;
    options.place = std::make_shared<CopyPlace>(std::make_unique<FakeDisk>(
        &disk_, [] { return DurableShardOptionsOf(ConfigOfRun(), 0, 1); }));
    return options;
  }

  static AssignedCopy LedByTheFirst() {
    AssignedCopy assigned;
    assigned.set_epoch(1);
    assigned.set_leader(1);
    return assigned;
  }
  void Lead(const std::vector<uint32_t>& in_sync, uint64_t heard) {
    AssignedCopy assigned = LedByTheFirst();
    assigned.mutable_in_sync()->Assign(in_sync.begin(), in_sync.end());
    assigned.set_heard(heard);
    ASSERT_TRUE(copies_[1]->Have(assigned, 1, now_).ok());
  }
  // Gives server 1 a journal. `reads`: how often it is read.
  void KeepJournal(int* reads) {
    DurableShardOptions shard = DurableShardOptionsOf(ConfigOfRun(), 0, 1);
    shard.journal = std::make_unique<CountingJournal>(reads);
    copies_[1] =
        std::make_unique<CopyCore>(Options(), std::make_unique<DurableShard>(std::move(shard)));
  }
  // Server 1 leads; worker 0 may push to it.
  void Start() {
    Lead({}, 0);
    ShardFixture model({.elements = {kElements}}, ConfigOfRun());
    copies_[1]->Execute(model.install(), 1, 1);
    copies_[1]->Execute(AdmitWorker{ShardFixture::Key(0)}, 2, 1);
    BeginSegment begin;
    begin.segment.set_id(1);
    begin.segment.set_clocks(1000);
    begin.segment.add_workers(0);
    copies_[1]->Execute(begin, 3, 1);
    Exchange();
  }
  void Follow(std::unique_ptr<DurableShard> shard = nullptr) {
    copies_[2] = std::make_unique<CopyCore>(Options(), std::move(shard));
    AssignedCopy assigned = LedByTheFirst();
    assigned.set_copy(9);
    ASSERT_TRUE(copies_[2]->Have(assigned, 2, now_).ok());
  }
  // The sequence number that the shard expects next; 0: no acknowledgement left.
  uint64_t Push(uint64_t seq) {
    const std::vector<float> ones(kElements, 1.0f);
    return Say(ShardFixture::PushOf(0, seq, seq, {{0, ones}}));
  }
  uint64_t Say(Message message) {
    acknowledged_ = 0;
    copies_[1]->OnMessage(7, std::move(message));
    Exchange();
    return acknowledged_;
  }
  // Of clock 1; the worker's state is needed.
  void BeginCheckpoint() {
    copies_[1]->Execute(TakeCheckpoint{1, 1, {ShardFixture::Key(0)}}, 4, 1);
    Exchange();
  }
  // Carries what copies send until nothing is left; `carries_` decides about each message.
  void Exchange() {
    for (bool again = true; again;) {
      again = false;
      for (auto& [server, copy] : copies_) {
        CopyCore::Effects effects;
        copy->Commit(now_, &effects);
        for (const Outgoing& out : effects.workers) {
          if (out.message.header.has_push_ack())
            acknowledged_ = out.message.header.push_ack().next_seq();
        }
        for (CopySend& send : effects.copies) {
          if (std::holds_alternative<CopyMessage::Image>(send.message.what)) ++images_;
          if (!copies_.contains(send.server) || !carries_(send.message)) continue;
          copies_[send.server]->OnCopy(server, std::move(send.message), now_);
          again = true;
        }
      }
    }
  }
  void Live(Duration time) {
    for (const Time end = now_ + time; now_ < end; now_ += kTick) {
      for (auto& [server, copy] : copies_) copy->Tick(now_);
      Exchange();
    }
  }
  CopyState state() const { return copies_.at(1)->State(); }
  std::map<uint32_t, uint64_t> CaughtUp() const {
    std::map<uint32_t, uint64_t> copies;
    const CopyState leading = state();
    for (const CopyState::CaughtUp& one : leading.caught_up()) copies[one.server()] = one.copy();
    return copies;
  }

  Time now_ = std::chrono::hours(1);
  std::map<uint32_t, std::unique_ptr<CopyCore>> copies_;
  std::function<bool(const CopyMessage&)> carries_ = [](const CopyMessage&) { return true; };
  FakeDiskState disk_;
  uint64_t acknowledged_ = 0;
  int images_ = 0;
};

TEST_F(CopyCoreTest, ACopyCatchesUpAndIsWaitedFor) {
  Start();
  Follow();
  Live(2 * kSilence);
  EXPECT_THAT(CaughtUp(), Contains(testing::Pair(2u, 9u)));
  EXPECT_EQ(Push(1), 2u);
  carries_ = [](const CopyMessage&) { return false; };
  EXPECT_EQ(Push(2), 0u) << "acknowledged before the other copy has it";
}

TEST_F(CopyCoreTest, ACopyThatHearsOfAnEpochFirstNeedNotAskAgain) {
  Follow();
  copies_[2]->Tick(now_);
  Exchange();  // server 1 does not know yet that it leads
  Start();
  Live(2 * kTick);
  EXPECT_THAT(CaughtUp(), Contains(testing::Pair(2u, 9u)));
}

// The image of the installed model takes in the step that is not written yet: nobody can send it.
TEST_F(CopyCoreTest, ACopyBeginsAnewWhenTheModelIsInstalledAgain) {
  int reads = 0;
  KeepJournal(&reads);
  Start();
  Follow();
  Live(2 * kSilence);
  ASSERT_EQ(images_, 1);
  copies_[1]->Execute(AdmitWorker{ShardFixture::Key(1)}, 4, 1);
  copies_[1]->Execute(ShardFixture({.elements = {kElements}}, ConfigOfRun()).install(), 5, 1);
  Live(4 * kSilence);
  EXPECT_EQ(images_, 2);
  EXPECT_EQ(copies_[2]->shard()->entries(), copies_[1]->shard()->entries());
}

// It was dropped and added again without noticing. Steps come all the time.
TEST_F(CopyCoreTest, ACopySaysThatItIsAnotherOneAlthoughItHearsTheLeader) {
  Start();
  Follow();
  Live(2 * kSilence);
  AssignedCopy assigned = LedByTheFirst();
  assigned.set_copy(10);
  ASSERT_TRUE(copies_[2]->Have(assigned, 2, now_).ok());
  for (uint64_t seq = 1; seq < 4; ++seq) {
    Push(seq);
    Live(kTick);
  }
  EXPECT_THAT(CaughtUp(), Contains(testing::Pair(2u, 10u)));
}

// Without a journal, steps before the first follower asks count as well.
TEST_F(CopyCoreTest, ACopyThatLacksAStepOfThePromotedCopyDoesNotCountAsCaughtUp) {
  Start();
  Follow();
  Live(2 * kSilence);
  Push(1);
  std::unique_ptr<CopyCore> away = std::move(copies_[1]);
  copies_.erase(1);
  AssignedCopy promoted;
  promoted.set_epoch(2);
  promoted.set_leader(2);
  ASSERT_TRUE(copies_[2]->Have(promoted, 2, now_).ok());
  const std::vector<float> ones(kElements, 1.0f);
  copies_[2]->OnMessage(7, ShardFixture::PushOf(0, 2, 2, {{0, ones}}));
  Exchange();
  copies_[1] = std::move(away);
  ASSERT_TRUE(copies_[1]->Have(promoted, 1, now_).ok());
  Live(2 * kSilence);
  ASSERT_FALSE(copies_[2]->State().caught_up().empty());
  EXPECT_EQ(copies_[1]->shard()->core().FastestClock(), 2u);
}

TEST_F(CopyCoreTest, AnImageThatIsWrittenForLongComesOnce) {
  Start();
  std::optional<CopyMessage> image;
  carries_ = [&](const CopyMessage& message) {
    if (!std::holds_alternative<CopyMessage::Image>(message.what)) return true;
    image = message;
    return false;
  };
  Follow();
  Live(2 * kTick);
  ASSERT_TRUE(image.has_value());
  copies_[2]->OnCopy(1, *image, now_);
  now_ += 2 * kSilence;  // the write
  Live(2 * kSilence);
  EXPECT_EQ(images_, 1);
  EXPECT_THAT(CaughtUp(), Contains(testing::Pair(2u, 9u)));
}

TEST_F(CopyCoreTest, ACopyWithANewNumberTakesTheImageThatIsOnItsWay) {
  Start();
  std::optional<CopyMessage> image;
  carries_ = [&](const CopyMessage& message) {
    if (!std::holds_alternative<CopyMessage::Image>(message.what)) return true;
    image = message;
    return false;
  };
  Follow();
  Live(2 * kTick);
  AssignedCopy assigned = LedByTheFirst();
  assigned.set_copy(10);
  ASSERT_TRUE(copies_[2]->Have(assigned, 2, now_).ok());
  for (int i = 0; i < 10; ++i) {
    copies_[2]->OnPart(now_);
    Live(kTick);
  }
  ASSERT_TRUE(image.has_value());
  copies_[2]->OnCopy(1, *image, now_);
  Live(2 * kTick);
  EXPECT_EQ(images_, 1);
  EXPECT_THAT(CaughtUp(), Contains(testing::Pair(2u, 10u)));
}

// What was sent over the link before may be lost. A copy whose journal is no beginning of this one
// would take what follows for the continuation of its own.
TEST_F(CopyCoreTest, OverANewLinkNothingComesBeforeTheCopySaysWhatItHas) {
  Start();
  Follow();
  Live(2 * kSilence);
  Lead({2}, state().report());
  int steps = 0;
  carries_ = [&](const CopyMessage& message) {
    steps += std::holds_alternative<CopyMessage::Steps>(message.what);
    return true;
  };
  copies_[1]->OnFollowerReached(2);
  EXPECT_EQ(Push(1), 0u);
  EXPECT_EQ(steps, 0);
  copies_[2]->OnReached();
  Live(2 * kTick);
  EXPECT_GT(steps, 0);
  EXPECT_EQ(Push(2), 3u);
}

TEST_F(CopyCoreTest, ItsOwnStandstillIsNobodysSilence) {
  Start();
  Follow();
  Live(2 * kSilence);
  Lead({2}, state().report());
  Live(kSilence);
  now_ += 5 * kSilence;
  Live(kSilence);
  EXPECT_THAT(state().silent(), IsEmpty());
  // One that is silent while the leading copy listens is reported.
  carries_ = [](const CopyMessage&) { return false; };
  Live(2 * kSilence);
  EXPECT_THAT(state().silent(), Contains(2u));
}

// A process that dies breaks its links.
TEST_F(CopyCoreTest, AFollowingCopyWhoseLinkBrokeIsSilentAfterAPartOfTheTime) {
  Start();
  Follow();
  Live(2 * kSilence);
  Lead({2}, state().report());
  copies_.erase(2);
  copies_[1]->OnFollowerGone(2, now_);
  Live(kSilence / 8);
  EXPECT_THAT(state().silent(), IsEmpty());
  Live(kSilence / 4);
  EXPECT_THAT(state().silent(), Contains(2u));
}

// A large image takes longer to come and to be written than a copy may be silent.
TEST_F(CopyCoreTest, AnImageIsGivenTheTimeThatItTakes) {
  Start();
  Push(1);
  Follow();
  std::vector<CopyMessage> late;  // the image, and the steps behind it
  carries_ = [&](const CopyMessage& message) {
    const bool image = std::holds_alternative<CopyMessage::Image>(message.what);
    if (!image && !std::holds_alternative<CopyMessage::Steps>(message.what)) return true;
    late.push_back(message);
    return false;
  };
  uint64_t seq = 2;
  for (const Time end = now_ + 6 * kSilence; now_ < end; now_ += kTick) {
    for (auto& [server, copy] : copies_) copy->Tick(now_);
    if (!late.empty()) copies_[2]->OnPart(now_);
    // Meanwhile workers push on, until more is kept than for copies that only lag.
    if (Push(seq) == seq + 1) ++seq;
  }
  EXPECT_EQ(images_, 1) << "it was sent again while it was on its way";
  EXPECT_GT(seq, 3u);
  EXPECT_LT(seq, 20u) << "workers wait for the copy";
  carries_ = [](const CopyMessage&) { return true; };
  for (CopyMessage& message : std::exchange(late, {}))
    copies_[2]->OnCopy(1, std::move(message), now_);
  Live(2 * kSilence);
  EXPECT_EQ(images_, 1);
  EXPECT_THAT(CaughtUp(), Contains(testing::Pair(2u, 9u)));
  EXPECT_EQ(copies_[2]->State().entries(), state().entries());
}

// On a slow link two parts of an image are further apart than a silence. A question between them
// would say that the copy could not write the image.
TEST_F(CopyCoreTest, ACopyDoesNotAskInTheMiddleOfAnImage) {
  Start();
  Follow();
  std::optional<CopyMessage> image;
  int questions = 0;
  carries_ = [&](const CopyMessage& message) {
    questions += std::holds_alternative<CopyMessage::Has>(message.what);
    if (!std::holds_alternative<CopyMessage::Image>(message.what)) return !image.has_value();
    image = message;
    return false;
  };
  Live(2 * kTick);
  ASSERT_TRUE(image.has_value());
  questions = 0;
  copies_[2]->OnPart(now_);
  Live(6 * kSilence);
  EXPECT_EQ(questions, 0);
  copies_[2]->OnReached();  // what came of the image is lost
  Live(2 * kTick);
  EXPECT_EQ(questions, 1);
}

TEST_F(CopyCoreTest, ACopyWithoutDataDoesNotLead) {
  copies_[1] = std::make_unique<CopyCore>(Options(), nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(copies_[1]->Have(LedByTheFirst(), 1, now_)));
  EXPECT_FALSE(state().leads());
}

TEST_F(CopyCoreTest, AnOrderUnderAnotherEpochIsRefused) {
  Start();
  for (const uint64_t epoch : {0u, 2u}) {
    copies_[1]->Execute(AdmitWorker{ShardFixture::Key(1)}, 4, epoch);
    CopyCore::Effects effects;
    copies_[1]->Commit(now_, &effects);
    ASSERT_EQ(effects.orders.size(), 1u);
    EXPECT_TRUE(absl::IsUnavailable(effects.orders[0].status));
    EXPECT_EQ(effects.orders[0].epoch, epoch);
  }
}

TEST_F(CopyCoreTest, AShardWithoutAPlaceIsMadeOnceThereIsOne) {
  disk_.full = true;
  AssignedCopy fresh = LedByTheFirst();
  fresh.set_fresh(true);
  ASSERT_TRUE(copies_[1]->Have(fresh, 1, now_).ok());
  Live(2 * kSilence);
  EXPECT_TRUE(state().empty());
  EXPECT_EQ(state().trouble(), "no space left");
  disk_.full = false;
  Live(2 * kSilence);
  ASSERT_TRUE(state().leads());
  EXPECT_EQ(state().trouble(), "");
  Start();
  EXPECT_EQ(Push(1), 2u);
}

// To read the journal would stop the shard, and take as much memory as the journal has bytes.
TEST_F(CopyCoreTest, ACopyThatJoinsDuringACheckpointBeginsAfterIt) {
  int reads = 0;
  KeepJournal(&reads);
  Start();
  BeginCheckpoint();
  Follow();
  Live(2 * kSilence);
  EXPECT_EQ(Push(1), 2u);
  EXPECT_EQ(Say(ShardFixture::SaveOf(0, 2, 1, {})), 3u);
  EXPECT_TRUE(copies_[1]->shard()->TakeFinishedCut().has_value());
  Live(2 * kSilence);
  EXPECT_EQ(images_, 0) << "a copy that leads later must be able to make the cut again";
  EXPECT_EQ(reads, 0);
  copies_[1]->CheckpointDone(1);
  Exchange();
  EXPECT_EQ(images_, 1);
  Live(2 * kSilence);
  EXPECT_THAT(CaughtUp(), Contains(testing::Pair(2u, 9u)));
}

TEST_F(CopyCoreTest, ALeadingCopyMindsTheTimeOnlyWithOthers) {
  EXPECT_TRUE(copies_[1]->MindsTime()) << "it does not lead yet";
  Start();
  Live(kTick);
  EXPECT_EQ(Push(1), 2u);
  EXPECT_FALSE(copies_[1]->MindsTime());
  Follow();
  EXPECT_TRUE(copies_[2]->MindsTime());
  Live(kTick);
  EXPECT_TRUE(copies_[1]->MindsTime());
}

// The checkpoint may need pushes that are acknowledged only with this copy.
TEST_F(CopyCoreTest, ACheckpointDoesNotWaitForACopyThatBeginsAfterIt) {
  Start();
  Follow();
  Live(2 * kSilence);
  Lead({2}, state().report());
  BeginCheckpoint();
  Follow();  // it lost what it had
  copies_[2]->Tick(now_);
  Exchange();
  EXPECT_THAT(state().silent(), Contains(2u));
}

// An image is saved beside the shard's steps. Meanwhile another shard may take the place.
TEST_F(CopyCoreTest, OnlyAnImageOfTheShardThatIsHereIsSaved) {
  int reads = 0;
  const auto make = [&reads] {
    DurableShardOptions shard = DurableShardOptionsOf(ConfigOfRun(), 0, 1);
    shard.journal = std::make_unique<CountingJournal>(&reads);
    shard.image_after = 1;
    return shard;
  };
  CopyOptions options = Options();
  options.place = std::make_shared<CopyPlace>(std::make_unique<FakeDisk>(&disk_, make));
  copies_[1] =
      std::make_unique<CopyCore>(std::move(options), std::make_unique<DurableShard>(make()));
  Start();
  const auto first = copies_[1]->TakeDueImage();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(copies_[1]->JournalFor(first), copies_[1]->shard()->journal());
  copies_[1]->ImageSaved(first, absl::OkStatus());
  EXPECT_EQ(copies_[1]->JournalFor(first), nullptr) << "it is saved already";
  EXPECT_EQ(Push(1), 2u);
  const auto second = copies_[1]->TakeDueImage();
  ASSERT_NE(second, nullptr);
  AssignedCopy fresh = LedByTheFirst();
  fresh.set_epoch(2);
  fresh.set_fresh(true);
  ASSERT_TRUE(copies_[1]->Have(fresh, 1, now_).ok());
  ASSERT_NE(copies_[1]->shard(), nullptr);
  EXPECT_EQ(copies_[1]->JournalFor(second), nullptr);
}

// Acknowledgements would wait for the whole image.
TEST_F(CopyCoreTest, ACopyInSyncIsSilentWhileItWritesAnImage) {
  Start();
  Follow();
  Live(2 * kSilence);
  Lead({2}, state().report());
  copies_.erase(2);
  copies_[1]->OnCopy(2, {0, 1, CopyMessage::Has{0, 0, 10}}, now_);  // it lost what it had
  Exchange();
  EXPECT_EQ(images_, 2);
  for (int i = 0; i < 16; ++i) {
    now_ += kSilence / 8;
    copies_[1]->OnCopy(2, {0, 1, CopyMessage::TakesImage{}}, now_);
    copies_[1]->Tick(now_);
  }
  EXPECT_THAT(state().silent(), Contains(2u));
}

TEST_F(CopyCoreTest, WhatACopyHadStaysIfAnImageCannotBeWritten) {
  Start();
  // The copy was read from a disk; its journal may be any.
  disk_ = {.place = "what it had", .full = true};
  Follow(FreshShard());
  Live(2 * kSilence);
  EXPECT_FALSE(copies_[2]->State().empty());
  EXPECT_EQ(disk_.read, "what it had");
  EXPECT_EQ(copies_[2]->State().trouble(), "no space left");
  // Steps that follow the image must not be added to what it had before.
  Push(1);
  Live(kSilence);
  EXPECT_EQ(copies_[2]->State().entries(), 0u);
  EXPECT_THAT(CaughtUp(), IsEmpty());
  disk_.full = false;
  Live(4 * kSilence);
  EXPECT_THAT(CaughtUp(), Contains(testing::Pair(2u, 9u)));
}

TEST_F(CopyCoreTest, ImagesThatCannotBeWrittenBecomeRarer) {
  Start();
  disk_.full = true;
  Follow();
  for (uint64_t seq = 1; seq <= 40; ++seq) {
    Live(kSilence);
    EXPECT_EQ(Push(seq), seq + 1) << "workers wait for the copy";
  }
  EXPECT_GE(images_, 5);
  EXPECT_LE(images_, 8);
  // The pause has an end, and is short again after a success.
  disk_.full = false;
  Live(10 * kSilence);
  EXPECT_THAT(CaughtUp(), Contains(testing::Pair(2u, 9u)));
  images_ = 0;
  disk_.full = true;
  copies_[1]->OnFollowerReached(2);
  Follow();  // it lost what it had
  Live(4 * kSilence);
  EXPECT_GE(images_, 2);
}

TEST_F(CopyCoreTest, ACopyInSyncIsSilentInThePauseBeforeItsNextImage) {
  Start();
  Follow();
  Live(2 * kSilence);
  Lead({2}, state().report());
  disk_.full = true;
  copies_[1]->OnFollowerReached(2);
  Follow();  // it lost what it had
  Live(2 * kSilence);
  EXPECT_THAT(state().silent(), Contains(2u));
}

}  // namespace
}  // namespace psgd
