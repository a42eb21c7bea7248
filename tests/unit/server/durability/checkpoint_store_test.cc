#include "server/durability/checkpoint_store.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "optimizers/diverged.h"
#include "server/durability/best_checkpoint.h"
#include "server/durability/checkpoint_files.h"
#include "tests/unit/server/durability/checkpoint_fixture.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<uint64_t> Ids(const CheckpointStore& store) {
  std::vector<std::string> notes;
  std::vector<uint64_t> ids;
  const auto manifests = store.List(&notes);
  EXPECT_TRUE(manifests.ok()) << manifests.status();
  if (!manifests.ok()) return ids;
  for (const auto& manifest : *manifests) ids.push_back(manifest.id());
  return ids;
}

TEST_F(CheckpointTest, ComesBackAsItWent) {
  Write(3, 4);
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->notes().empty());
  ExpectIsCheckpoint(*loaded, 3, 4);
  const CheckpointManifest& manifest = loaded->manifest();
  EXPECT_EQ(manifest.config().name(), "test-run");
  EXPECT_EQ(manifest.hyper().learning_rate(), 0.25);
  EXPECT_EQ(manifest.evaluations(0).accuracy(), 0.5);
  EXPECT_GT(manifest.unix_seconds(), 0);
}

TEST_F(CheckpointTest, BytesOnDiskGrowWithEachPart) {
  EXPECT_EQ(store_.BytesOnDisk(), 0u);
  const Placement placement = TestPlacement(2);
  ASSERT_TRUE(store_.Begin(1).ok());
  const auto snapshots = TestSnapshots(1, placement, 2);
  uint64_t before = 0;
  for (uint32_t shard : {0, 1}) {
    ASSERT_TRUE(store_.WriteShard(1, shard, snapshots[shard]).ok());
    const uint64_t now = store_.BytesOnDisk();
    EXPECT_GT(now, std::exchange(before, now));
  }
}

TEST_F(CheckpointTest, TheNewestSealedOneIsLoaded) {
  Write(1, 2);
  Write(2, 2);
  WriteUnsealed(3, 2);
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectIsCheckpoint(*loaded, 2, 2);
  ASSERT_EQ(loaded->notes().size(), 1u);
  EXPECT_THAT(loaded->notes()[0], HasSubstr("checkpoint 3"));
  EXPECT_EQ(Ids(store_), (std::vector<uint64_t>{2, 1}));
}

TEST_F(CheckpointTest, ShardsWithoutSlicesAreFine) {
  const Placement placement = TestPlacement(1);
  CheckpointManifest manifest = TestManifest(2, placement);
  ASSERT_TRUE(store_.Begin(2).ok());
  auto snapshots = TestSnapshots(2, placement, 2);
  snapshots[1] = {};
  for (uint32_t shard : {0, 1}) {
    auto receipt = store_.WriteShard(2, shard, snapshots[shard]);
    ASSERT_TRUE(receipt.ok()) << receipt.status();
    *manifest.add_shards() = *receipt;
  }
  ASSERT_TRUE(store_.Seal(manifest).ok());
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectIsCheckpoint(*loaded, 2, 3);
}

TEST_F(CheckpointTest, BeginPutsAbandonedFuturesAside) {
  Write(1, 2);
  Write(2, 2);
  WriteUnsealed(3, 2);
  Write(2, 3);  // a run that resumed from 1 and wrote its own second checkpoint
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectIsCheckpoint(*loaded, 2, 3);
  EXPECT_EQ(loaded->manifest().shards_size(), 3);
  EXPECT_TRUE(loaded->notes().empty());
  EXPECT_TRUE(fs::exists(NumberedFolder(root_, "discarded", 2)));
  EXPECT_TRUE(fs::exists(NumberedFolder(root_, "discarded", 3)));
  ASSERT_TRUE(store_.Prune(5).ok());
  EXPECT_FALSE(fs::exists(NumberedFolder(root_, "discarded", 2)));
  EXPECT_EQ(Ids(store_), (std::vector<uint64_t>{2, 1}));
}

TEST_F(CheckpointTest, OnlyAnUnsealedOneIsDiscarded) {
  Write(1, 2);
  WriteUnsealed(2, 2);
  for (const uint64_t id : {1, 2, 3}) EXPECT_TRUE(store_.Discard(id).ok());
  EXPECT_EQ(Ids(store_), std::vector<uint64_t>{1});
  EXPECT_FALSE(fs::exists(CheckpointFolder(root_, 2)));
}

TEST_F(CheckpointTest, PruneKeepsTheNewest) {
  for (uint64_t id = 1; id <= 4; ++id) Write(id, 1);
  WriteUnsealed(5, 1);
  ASSERT_TRUE(store_.Prune(2).ok());
  EXPECT_EQ(Ids(store_), (std::vector<uint64_t>{4, 3}));
  EXPECT_TRUE(fs::exists(CheckpointFolder(root_, 5))) << "it may still be under way";
  std::ofstream(ManifestPath(root_, 4)) << "damaged";
  ASSERT_TRUE(store_.Prune(1).ok());
  EXPECT_EQ(Ids(store_), (std::vector<uint64_t>{3})) << "a damaged one is not counted";
}

TEST_F(CheckpointTest, NamedOnesAreFoundAndNeverPruned) {
  for (uint64_t id = 1; id <= 5; ++id) {
    CheckpointManifest manifest = WriteUnsealed(id, 1);
    if (id % 2 == 1 && id < 5) manifest.set_name("before-" + std::to_string(id));
    ASSERT_TRUE(store_.Seal(manifest).ok());
  }
  EXPECT_EQ(*store_.Find("before-3"), 3u);
  EXPECT_EQ(*store_.Find("4"), 4u);
  EXPECT_TRUE(absl::IsNotFound(store_.Find("before-2").status()));
  EXPECT_TRUE(absl::IsNotFound(store_.Find("9").status()));
  EXPECT_EQ(*store_.LastId(), 5u);
  EXPECT_EQ(*store_.Prune(1), (std::vector<uint64_t>{4, 2}));
  EXPECT_EQ(Ids(store_), (std::vector<uint64_t>{5, 3, 1}));
  EXPECT_TRUE(CheckNewName(store_, "").ok());
  EXPECT_TRUE(CheckNewName(store_, "before-2").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(CheckNewName(store_, "before-3")));
}

// Checkpoints after epochs 1 to 5; the accuracy of an epoch is in the next checkpoint at the
// latest.
TEST_F(CheckpointTest, TheBestIsKeptAndFound) {
  const double accuracies[] = {0.6, 0.9, 0.8, 0.9, 0.7};
  CheckpointManifest manifest;
  for (uint64_t id = 1; id <= 5; ++id) {
    manifest = WriteUnsealed(id, 1);
    manifest.clear_evaluations();
    manifest.set_epoch_progress(static_cast<double>(id));
    manifest.mutable_config()->mutable_durability()->set_keep_best(true);
    for (uint64_t epoch = 1; epoch < id; ++epoch) {
      EvalResult* result = manifest.add_evaluations();
      result->set_epoch(static_cast<double>(epoch));
      result->set_accuracy(accuracies[epoch - 1]);
    }
    ASSERT_TRUE(store_.Seal(manifest).ok());
  }
  EXPECT_EQ(*store_.Find("best"), 2u);  // of equals the first
  EXPECT_EQ(*store_.Prune(2), (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(Ids(store_), (std::vector<uint64_t>{5, 4, 2}));
  EXPECT_EQ(*store_.Find("best"), 2u);

  // A checkpoint within an epoch: the newest of an epoch's end stays until its evaluation is here.
  CheckpointManifest within = WriteUnsealed(6, 1);
  *within.mutable_config() = manifest.config();
  *within.mutable_evaluations() = manifest.evaluations();
  within.set_epoch_progress(5.5);
  ASSERT_TRUE(store_.Seal(within).ok());
  EXPECT_EQ(*store_.Prune(1), (std::vector<uint64_t>{4}));
  EXPECT_EQ(Ids(store_), (std::vector<uint64_t>{6, 5, 2}));
}

class EvaluatedCheckpointTest : public CheckpointTest {
 protected:
  // A checkpoint at that epoch, with evaluations of epochs 1, 2, ...
  void WriteEvaluated(uint64_t id, double epoch, const std::vector<double>& accuracies) {
    CheckpointManifest manifest = WriteUnsealed(id, 1);
    manifest.clear_evaluations();
    manifest.set_epoch_progress(epoch);
    for (size_t i = 0; i < accuracies.size(); ++i) {
      EvalResult* result = manifest.add_evaluations();
      result->set_epoch(static_cast<double>(i) + 1);
      result->set_accuracy(accuracies[i]);
    }
    ASSERT_TRUE(store_.Seal(manifest).ok());
  }
};

// After a resume from checkpoint 1 there is another epoch 2, which was worse.
TEST_F(EvaluatedCheckpointTest, TheBestIsOfItsOwnTraining) {
  WriteEvaluated(1, 1, {0.5});
  WriteEvaluated(2, 2, {0.5, 0.9});
  WriteEvaluated(3, 2, {0.5, 0.6});
  EXPECT_EQ(*store_.Find("best"), 2u);
}

// Training ended after checkpoint 3, before epoch 3 was evaluated; a resume from checkpoint 1
// trained epochs 2 and 3 again.
TEST_F(EvaluatedCheckpointTest, AnEvaluationIsOfNoAbandonedTraining) {
  WriteEvaluated(1, 1, {});
  WriteEvaluated(2, 2, {0.5});
  WriteEvaluated(3, 3, {0.5, 0.6});
  WriteEvaluated(4, 2, {0.5});
  WriteEvaluated(5, 3, {0.5, 0.7});
  WriteEvaluated(6, 4, {0.5, 0.7, 0.9});
  EXPECT_EQ(*store_.Find("best"), 5u);
  EXPECT_FALSE(*store_.EvaluationOf(3));
  EXPECT_EQ((*store_.EvaluationOf(4))->accuracy(), 0.7);
  EXPECT_EQ((*store_.EvaluationOf(1))->accuracy(), 0.5);
  EXPECT_FALSE(*store_.EvaluationOf(6));
}

// A resume from checkpoint 2 gave up 3 and 4, and one from 6 the checkpoint 7.
TEST_F(EvaluatedCheckpointTest, TheBestIsOfNoTrainingThatWasGivenUp) {
  const auto write = [&](uint64_t id, double epoch, double accuracy, uint64_t from,
                         uint64_t first) {
    CheckpointManifest manifest = WriteUnsealed(id, 1);
    manifest.clear_evaluations();
    manifest.set_epoch_progress(epoch);
    EvalResult* result = manifest.add_evaluations();
    result->set_epoch(epoch);
    result->set_accuracy(accuracy);
    manifest.mutable_total()->set_resumed_from(from);
    manifest.mutable_total()->set_first_checkpoint(first);
    ASSERT_TRUE(store_.Seal(manifest).ok());
  };
  write(1, 1, 0.5, 0, 0);
  write(2, 2, 0.6, 0, 0);
  write(3, 3, 0.7, 0, 0);
  write(4, 4, 0.9, 0, 0);
  EXPECT_EQ(*store_.Find("best"), 4u);
  write(5, 3.5, 0.65, 2, 5);
  EXPECT_EQ(*store_.Find("best"), 5u);
  write(6, 4, 0.6, 2, 5);
  write(7, 5, 0.8, 2, 5);
  write(8, 5, 0.6, 6, 8);
  EXPECT_EQ(*store_.Find("best"), 5u);
  std::vector<std::string> notes;
  EXPECT_EQ(GivenUp(*store_.List(&notes)), (std::set<uint64_t>{3, 4, 7}));
}

TEST_F(CheckpointTest, WithoutEvaluationsNoneIsTheBest) {
  CheckpointManifest manifest = WriteUnsealed(1, 1);
  manifest.clear_evaluations();
  ASSERT_TRUE(store_.Seal(manifest).ok());
  EXPECT_TRUE(absl::IsNotFound(store_.Find("best").status()));
}

TEST(CheckpointName, IsOneThatFilesAndPeopleCanHave) {
  for (const char* good : {"a", "before-decay", "v1.2_x", "2nd"})
    EXPECT_TRUE(CheckName(good).ok()) << good;
  for (const char* bad : {"", "12", "a b", "../x", "a/b", "\n", "\xC3\xA4", "best"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckName(bad))) << bad;
  }
  EXPECT_TRUE(CheckName(std::string(64, 'x')).ok());
  EXPECT_FALSE(CheckName(std::string(65, 'x')).ok());
}

TEST_F(CheckpointTest, VerifySaysOfEachWhatIsWrong) {
  for (uint64_t id = 1; id <= 3; ++id) Write(id, 2);
  WriteUnsealed(4, 2);
  std::ofstream(ManifestPath(root_, 3)) << "damaged";
  for (const std::string& path : FilesIn(ShardFolder(root_, 2, 1))) {
    if (path.ends_with(".sst")) fs::resize_file(path, fs::file_size(path) - 1);
  }
  const auto checked = store_.Verify();
  ASSERT_TRUE(checked.ok()) << checked.status();
  ASSERT_EQ(checked->size(), 4u);
  EXPECT_FALSE((*checked)[0].sealed);
  EXPECT_FALSE((*checked)[1].manifest.has_value());
  EXPECT_THAT(std::string((*checked)[1].status.message()), HasSubstr(ManifestPath(root_, 3)));
  EXPECT_THAT(std::string((*checked)[2].status.message()), HasSubstr(ShardFolder(root_, 2, 1)));
  EXPECT_TRUE((*checked)[3].status.ok()) << (*checked)[3].status;
  EXPECT_EQ((*checked)[3].manifest->id(), 1u);
}

TEST_F(CheckpointTest, ReadingLeavesEveryFileAsItIs) {
  Write(1, 2);
  const auto before = FilesIn(root_);
  ASSERT_TRUE(store_.LoadNewest().ok());
  ASSERT_TRUE(store_.Load(1).ok());
  EXPECT_EQ(FilesIn(root_), before);
}

TEST_F(CheckpointTest, SealNeedsEveryShardOnce) {
  CheckpointManifest manifest = WriteUnsealed(1, 2);
  CheckpointManifest incomplete = manifest;
  incomplete.mutable_shards()->RemoveLast();
  EXPECT_THAT(std::string(store_.Seal(incomplete).message()), HasSubstr("lacks the part of shard"));
  *manifest.add_shards() = manifest.shards(0);
  EXPECT_THAT(std::string(store_.Seal(manifest).message()), HasSubstr("two parts"));
  EXPECT_TRUE(absl::IsNotFound(store_.LoadNewest().status()));
}

TEST_F(CheckpointTest, SaysWhenThereIsNone) {
  EXPECT_TRUE(absl::IsNotFound(store_.LoadNewest().status()));
  EXPECT_TRUE(absl::IsNotFound(CheckpointStore(root_ + "/absent").LoadNewest().status()));
  EXPECT_FALSE(fs::exists(root_ + "/absent")) << "looking must not create anything";
  EXPECT_FALSE(store_.Load(9).ok());
}

TEST_F(CheckpointTest, ForeignFoldersAreNotCheckpoints) {
  Write(1, 1);
  for (const char* name : {"checkpoint-", "checkpoint-x", "checkpoint-9", "checkpoint--00000000001",
                           "checkpoint-000000000009x"}) {
    fs::create_directories(root_ + "/" + name);
  }
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->notes().empty());
}

TEST_F(CheckpointTest, AnUnwritablePlaceIsAnErrorThatNamesIt) {
  const std::string file = root_ + "/occupied";
  std::ofstream(file) << "a file where a folder should be";
  const CheckpointStore store(file + "/checkpoints");
  const absl::Status begun = store.Begin(1);
  EXPECT_FALSE(begun.ok());
  EXPECT_THAT(std::string(begun.message()), HasSubstr(file));
  EXPECT_TRUE(absl::IsFailedPrecondition(store_.WriteShard(7, 0, {}).status()));
}

TEST_F(CheckpointTest, AFolderWithoutWritePermissionIsAnError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  ASSERT_EQ(chmod(root_.c_str(), 0555), 0);
  const absl::Status begun = store_.Begin(1);
  chmod(root_.c_str(), 0755);
  EXPECT_TRUE(absl::IsPermissionDenied(begun)) << begun;
}

// Every write beyond 4 KiB of a file fails, as on a full disk.
TEST_F(CheckpointTest, AWriteThatFailsIsAnErrorAndLeavesTheOthers) {
  Write(1, 1);
  ASSERT_TRUE(store_.Begin(2).ok());
  const auto snapshots = TestSnapshots(2, TestPlacement(1), 1);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status written = store_.WriteShard(2, 0, snapshots[0]).status();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(written.ok());
  EXPECT_THAT(std::string(written.message()), HasSubstr(ShardFolder(root_, 2, 0)));
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectIsCheckpoint(*loaded, 1, 1);
  Write(2, 1);  // the next try starts from the beginning
  EXPECT_EQ(Ids(store_), (std::vector<uint64_t>{2, 1}));
}

// Whoever resumes gets the checkpoint before.
TEST_F(CheckpointTest, NoneIsMadeOfNumbersThatAreNotFinite) {
  Write(1, 1);
  const auto spoil = [](Bytes* numbers) {
    constexpr float kInfinite = std::numeric_limits<float>::infinity();
    std::vector<std::byte> bytes(numbers->span().begin(), numbers->span().end());
    StoreField(kInfinite, bytes.data() + bytes.size() - sizeof kInfinite);
    *numbers = Bytes::Adopt(std::move(bytes));
  };
  ASSERT_TRUE(store_.Begin(2).ok());
  for (const bool weights : {true, false}) {
    ShardSnapshot snapshot = TestSnapshots(2, TestPlacement(1), 1)[0];
    snapshot.slices[0].states[0].first = kAverageState;
    spoil(weights ? &snapshot.slices[0].weights : &snapshot.slices[0].states[0].second);
    const absl::Status written = store_.WriteShard(2, 0, snapshot).status();
    EXPECT_TRUE(absl::IsOutOfRange(written)) << written;
    EXPECT_TRUE(SaysDiverged(written.message())) << written;
    EXPECT_THAT(std::string(written.message()),
                HasSubstr(weights ? "the weights of slice 0 of fc1.weight are not all finite"
                                  : "the averages of slice 0 of fc1.weight are not all finite"));
  }
  // An optimizer's array may be infinite: that weight does not move any more.
  ShardSnapshot snapshot = TestSnapshots(2, TestPlacement(1), 1)[0];
  spoil(&snapshot.slices[0].states[0].second);
  EXPECT_TRUE(store_.WriteShard(2, 0, snapshot).ok());
  ASSERT_TRUE(store_.Discard(2).ok());
  EXPECT_EQ(Ids(store_), (std::vector<uint64_t>{1}));
}

TEST_F(CheckpointTest, APartThatIsAlreadyThereIsNotOverwritten) {
  Write(1, 1);
  const auto others = TestSnapshots(9, TestPlacement(1), 1);
  EXPECT_TRUE(absl::IsAlreadyExists(store_.WriteShard(1, 0, others[0]).status()));
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectIsCheckpoint(*loaded, 1, 1);
}

}  // namespace
}  // namespace psgd
