// Damages files of checkpoints three thousand times. Each load is refused, or returns the data that
// was written.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "common/philox.h"
#include "server/durability/checkpoint_files.h"
#include "tests/unit/server/durability/checkpoint_fixture.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr int kMutations = 3'000;
constexpr int kShards = 2;

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Makes a new file each time: some file systems flush a rewritten file.
void Replace(const std::string& path, const std::string& contents) {
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << contents;
}

class MutatedCheckpoints : public CheckpointTest {
 protected:
  MutatedCheckpoints() {
    Write(1, kShards);
    Write(2, kShards);
    paths_ = FilesIn(CheckpointFolder(root_, 2));
    for (const std::string& path : FilesIn(root_)) sound_[path] = Read(path);
  }

  // Returns the file of the same name in the other checkpoint, or the same file if there is none.
  const std::string& Twin(const std::string& path) const {
    std::string other = path;
    const std::string from = CheckpointFolder(root_, 2);
    other.replace(0, from.size(), CheckpointFolder(root_, 1));
    const auto found = sound_.find(other);
    return found == sound_.end() ? sound_.at(path) : found->second;
  }

  std::string Mutate(const std::string& path, RandomStream* random) const {
    std::string file = sound_.at(path);
    const auto below = [&](size_t limit) {
      return static_cast<size_t>(
          random->NextBelow(static_cast<uint32_t>(std::max<size_t>(limit, 1))));
    };
    switch (below(10)) {
      case 0:
        file.resize(below(file.size()));
        return file;
      case 1:
        return file + std::string(1 + below(600), static_cast<char>(random->NextBits()));
      case 2:
        return Twin(path);
      case 3:
        return sound_.at(paths_[below(paths_.size())]);
      case 4: {  // a sector that was never written
        const size_t at = below(file.size());
        std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(at),
                    std::min<size_t>(512, file.size() - at), '\0');
        return file;
      }
      case 5:
        file.insert(below(file.size() + 1), 1 + below(8), static_cast<char>(random->NextBits()));
        return file;
      default:
        for (size_t flips = 1 + below(4); flips > 0 && !file.empty(); --flips) {
          file[below(file.size())] ^= static_cast<char>(1 << below(8));
        }
        return file;
    }
  }

  // Expects that loading is refused with the file's name, or returns the data that was written.
  void ExpectRefusedOrSound(const std::string& path, const std::string& contents, int* refused) {
    const bool same = contents == sound_.at(path);
    Replace(path, contents);
    const auto loaded = store_.Load(2);
    if (loaded.ok()) {
      ExpectIsCheckpoint(*loaded, 2, kShards);
    } else {
      ++*refused;
      EXPECT_FALSE(same) << loaded.status();
      EXPECT_FALSE(loaded.status().message().empty());
    }
    // A changed file is never accepted if the manifest lists it.
    EXPECT_TRUE(same || listed_.count(path) == 0 || !loaded.ok()) << path;
    Replace(path, sound_.at(path));
  }

  void ListFiles() {
    const auto manifest = ReadManifest(ManifestPath(root_, 2));
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    listed_[ManifestPath(root_, 2)] = true;
    for (const ShardReceipt& shard : manifest->shards()) {
      for (const CheckpointFile& file : shard.files()) {
        listed_[ShardFolder(root_, 2, shard.shard()) + "/" + file.name()] = true;
      }
    }
  }

  std::vector<std::string> paths_;
  std::map<std::string, std::string> sound_;
  std::map<std::string, bool> listed_;
};

TEST_F(MutatedCheckpoints, AreRefusedOrWhatWasWritten) {
  ListFiles();
  RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), 1);
  int refused = 0;
  for (int i = 0; i < kMutations && !HasFailure(); ++i) {
    // Every fourth mutation hits the manifest, which describes the other files.
    const std::string path = i % 4 == 0
                                 ? ManifestPath(root_, 2)
                                 : paths_[random.NextBelow(static_cast<uint32_t>(paths_.size()))];
    SCOPED_TRACE(path);
    ExpectRefusedOrSound(path, Mutate(path, &random), &refused);
  }
  EXPECT_GT(refused, kMutations / 2);
  const auto loaded = store_.Load(2);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectIsCheckpoint(*loaded, 2, kShards);
}

// The manifest is forged to cover the damage, but values have their own checksums.
TEST_F(MutatedCheckpoints, AManifestThatVouchesForDamageDoesNotHelpIt) {
  RandomStream random(MakeKey(2, RandomPurpose::kSynthetic), 1);
  const auto manifest = ReadManifest(ManifestPath(root_, 2));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  int refused = 0;
  for (int i = 0; i < kMutations / 20 && !HasFailure(); ++i) {
    CheckpointManifest changed = *manifest;
    ShardReceipt& shard = *changed.mutable_shards(i % kShards);
    const int number =
        static_cast<int>(random.NextBelow(static_cast<uint32_t>(shard.files_size())));
    CheckpointFile& file = *shard.mutable_files(number);
    const std::string path = ShardFolder(root_, 2, shard.shard()) + "/" + file.name();
    SCOPED_TRACE(path);
    const std::string contents = Mutate(path, &random);
    Replace(path, contents);
    file.set_bytes(contents.size());
    file.set_checksum(ChecksumOf(std::as_bytes(std::span<const char>(contents))));
    ASSERT_TRUE(WriteManifest(ManifestPath(root_, 2), changed).ok());
    const auto loaded = store_.Load(2);
    if (loaded.ok()) ExpectIsCheckpoint(*loaded, 2, kShards);
    refused += !loaded.ok();
    Replace(path, sound_.at(path));
  }
  EXPECT_GT(refused, kMutations / 100);
}

}  // namespace
}  // namespace psgd
