// The files of the newest checkpoint are damaged in any way. The load returns exactly that
// checkpoint, or exactly the checkpoint before it.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "server/durability/checkpoint_files.h"
#include "server/durability/checkpoint_store.h"
#include "tests/unit/server/durability/checkpoint_fixture.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void Replace(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

class CheckpointDamageTest : public CheckpointTest {
 protected:
  CheckpointDamageTest() {
    Write(1, 2);
    Write(2, 2);
  }

  // Returns the checkpoint that was loaded.
  uint64_t ExpectSoundResult(const std::string& what) {
    SCOPED_TRACE(what);
    auto loaded = store_.LoadNewest();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return 0;
    const uint64_t id = loaded->manifest().id();
    EXPECT_TRUE(id == 1 || id == 2) << id;
    ExpectIsCheckpoint(*loaded, id, 2);
    EXPECT_EQ(loaded->notes().empty(), id == 2);
    return id;
  }

  // Tries `damage` on each file in turn. Returns how often the newest checkpoint was skipped.
  int DamageEach(const std::function<bool(std::string*)>& damage, const std::string& how) {
    int passed_over = 0;
    for (const std::string& path : FilesIn(CheckpointFolder(root_, 2))) {
      const std::string sound = Read(path);
      std::string damaged = sound;
      if (!damage(&damaged)) continue;
      Replace(path, damaged);
      passed_over += ExpectSoundResult(how + " " + path) == 1;
      Replace(path, sound);
    }
    EXPECT_EQ(ExpectSoundResult("restored"), 2u);
    return passed_over;
  }
};

TEST_F(CheckpointDamageTest, TruncatedFiles) {
  for (const double keep : {0.0, 0.3, 0.9, 1.0}) {
    const int passed_over = DamageEach(
        [&](std::string* file) {
          if (file->empty()) return false;
          file->resize(keep == 1.0 ? file->size() - 1
                                   : static_cast<size_t>(keep * static_cast<double>(file->size())));
          return true;
        },
        "truncated");
    EXPECT_GE(passed_over, 5) << "each table, catalogue and manifest matters";
  }
}

TEST_F(CheckpointDamageTest, FlippedBits) {
  for (const double where : {0.0, 0.01, 0.2, 0.5, 0.7, 0.97, 0.9999}) {
    for (const int bit : {0, 7}) {
      const int passed_over = DamageEach(
          [&](std::string* file) {
            if (file->empty()) return false;
            (*file)[static_cast<size_t>(where * static_cast<double>(file->size()))] ^=
                static_cast<char>(1 << bit);
            return true;
          },
          "flipped bit of");
      EXPECT_GE(passed_over, 5) << "each table, catalogue and manifest matters";
    }
  }
}

TEST_F(CheckpointDamageTest, LongerFiles) {
  DamageEach(
      [](std::string* file) {
        file->append("more");
        return true;
      },
      "extended");
}

TEST_F(CheckpointDamageTest, MissingFiles) {
  for (const std::string& path : FilesIn(CheckpointFolder(root_, 2))) {
    const std::string sound = Read(path);
    fs::remove(path);
    ExpectSoundResult("removed " + path);
    Replace(path, sound);
  }
  fs::remove_all(ShardFolder(root_, 2, 1));
  EXPECT_EQ(ExpectSoundResult("removed a shard"), 1u);
}

TEST_F(CheckpointDamageTest, FilesOfTheOtherCheckpointAreNotTakenForThisOne) {
  fs::remove_all(ShardFolder(root_, 2, 0));
  fs::copy(ShardFolder(root_, 1, 0), ShardFolder(root_, 2, 0), fs::copy_options::recursive);
  EXPECT_EQ(ExpectSoundResult("an older shard"), 1u);
  fs::copy_file(ManifestPath(root_, 1), ManifestPath(root_, 2),
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(ExpectSoundResult("an older manifest"), 1u);
}

TEST_F(CheckpointDamageTest, NotesNameTheFile) {
  const std::string manifest = ManifestPath(root_, 2);
  Replace(manifest, Read(manifest).substr(0, 40));
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok());
  ASSERT_EQ(loaded->notes().size(), 1u);
  EXPECT_THAT(loaded->notes()[0], AllOf(HasSubstr("checkpoint 2"), HasSubstr(manifest)));
}

TEST_F(CheckpointDamageTest, WhenAllAreDamagedTheErrorNamesThemAll) {
  for (uint64_t id : {1, 2}) {
    for (const std::string& path : FilesIn(ShardFolder(root_, id, 1))) {
      if (path.ends_with(".sst")) fs::resize_file(path, 100);
    }
  }
  const absl::Status status = store_.LoadNewest().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(ShardFolder(root_, 1, 1)), HasSubstr(ShardFolder(root_, 2, 1)),
                    HasSubstr("restore the folder from a copy")));
}

}  // namespace
}  // namespace psgd
