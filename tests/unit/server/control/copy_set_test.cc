#include "server/control/copy_set.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "experiment/config/config_yaml.h"
#include "server/durability/journal_folder.h"
#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

constexpr Duration kCopySetPatience = std::chrono::seconds(30);

// The stream of a follower that says nothing.
class SilentFollower : public FollowingStream {
 public:
  bool Send(const LeadingSays&) override { return !ended(); }
  bool Receive(FollowingSays*) override {
    std::unique_lock lock(mutex_);
    receives_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return ended_; });
    return false;
  }
  void End() override {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  bool WaitReceives() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kCopySetPatience, [&] { return receives_; });
  }
  bool ended() {
    std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool receives_ = false, ended_ = false;
};

class CopySets : public ::testing::Test {
 protected:
  void SetUp() override {
    CopySetOptions options;
    options.config =
        *ParseConfig("name: small\nmodel: {zoo: mlp}\ndata: {format: synthetic}\n", "a test");
    options.config.mutable_cluster()->set_shards(1);
    options.config.mutable_durability()->set_acknowledge(DurabilityConfig::JOURNAL);
    options.run_id = "run";
    options.host = "127.0.0.1";
    options.journal_dir = scratch_.path();
    options.silence = std::chrono::milliseconds(500);
    options.callbacks.on_state = [this](const CopyState& state) {
      std::lock_guard lock(mutex_);
      state_ = state;
      changed_.notify_all();
    };
    options.callbacks.on_order = [](uint32_t, const CopyCore::OrderDone&) {};
    options.callbacks.on_cut = [](uint32_t, const ShardCut&) {};
    options.callbacks.on_quarantine = [](const QuarantinedWorker&) {};
    options.callbacks.on_image = [](uint32_t, const std::shared_ptr<const ShardImage>&) {};
    ASSERT_TRUE(MakeJournalFolder(scratch_.path(), NullLog()).ok());
    auto set = CopySet::Open(std::move(options));
    ASSERT_TRUE(set.ok()) << set.status();
    set_ = *std::move(set);
  }

  // Makes a copy of shard 0 that leads under the epoch. False: it does not get a port, because it
  // has no journal.
  bool Lead(uint64_t epoch) {
    AssignedCopy assigned;
    assigned.set_epoch(epoch);
    assigned.set_leader(1);
    assigned.add_in_sync(1);
    assigned.set_fresh(true);
    assigned.set_copy(epoch);
    set_->Have(assigned, 1);
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kCopySetPatience, [&] {
      return state_.epoch() == epoch && (!state_.endpoint().empty() || !state_.trouble().empty());
    }) && state_.trouble().empty();
  }

  ScratchFolder scratch_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  CopyState state_;
  std::unique_ptr<CopySet> set_;
};

TEST_F(CopySets, ACopyThatIsDroppedLeavesItsFollowersAndItsJournal) {
  ASSERT_TRUE(Lead(1)) << state_.ShortDebugString();
  FollowingSays::Hello hello;
  hello.set_run_id("run");
  hello.set_server(2);
  SilentFollower follower;
  std::thread serves([&] { EXPECT_TRUE(set_->Follow(hello, &follower).ok()); });
  EXPECT_TRUE(follower.WaitReceives());
  set_->Drop(0);
  EXPECT_TRUE(follower.ended()) << "what the follower says would be lost";
  EXPECT_TRUE(Lead(2)) << "its journal is still open: " << state_.ShortDebugString();
  follower.End();  // if Drop did not
  serves.join();
  set_->Drop(0);
  SilentFollower late;
  EXPECT_TRUE(absl::IsUnavailable(set_->Follow(hello, &late)));
}

}  // namespace
}  // namespace psgd
