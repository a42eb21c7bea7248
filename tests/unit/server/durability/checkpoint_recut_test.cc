#include <gmock/gmock.h>

#include <span>

#include "common/program_state.h"
#include "compression/saved_state.h"
#include "proto/data.pb.h"
#include "server/durability/checkpoint_store.h"
#include "tests/unit/server/durability/checkpoint_fixture.h"

namespace psgd {
namespace {

using ::testing::HasSubstr;

TEST_F(CheckpointTest, RestoresOntoAnyNumberOfShards) {
  for (int written : {1, 4, 7}) {
    Write(static_cast<uint64_t>(written), written);
    auto loaded = store_.LoadNewest();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    for (int restored : {1, 4, 7}) {
      ExpectIsCheckpoint(*loaded, static_cast<uint64_t>(written), restored);
    }
  }
}

TEST_F(CheckpointTest, CutsAtArbitraryPlaces) {
  Write(1, 3);
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (uint64_t offset : {0, 1, 500, 1023, 9000}) {
    for (uint64_t count : {1, 2, 1000, 1100}) {
      auto cut = loaded->Extract("fc1.weight", offset, count);
      ASSERT_TRUE(cut.ok()) << cut.status();
      const auto check = [&](const Bytes& bytes, int array) {
        ASSERT_EQ(bytes.size(), count * sizeof(float));
        const auto* values = reinterpret_cast<const float*>(bytes.data());
        for (uint64_t i = 0; i < count; ++i) {
          ASSERT_EQ(values[i], TestValue(1, array, 0, offset + i)) << array << " " << offset;
        }
      };
      check(cut->weights, 0);
      check(cut->states.at(0).second, 1);
      check(cut->residuals.at(0), 10);
      check(cut->residuals.at(2), 12);
    }
  }
}

// Encoders' memories are cut together with residuals, array by array.
TEST_F(CheckpointTest, CutsEveryArrayOfAWorkersState) {
  constexpr uint32_t kWorker = 5;
  const Placement placement = TestPlacement(3);
  CheckpointManifest manifest = TestManifest(1, placement);
  for (uint32_t shard = 0; shard < 3; ++shard) manifest.add_shards()->set_shard(shard);
  auto shards = TestSnapshots(1, placement, 3);
  for (ShardSnapshot& shard : shards) {
    for (const SliceSnapshot& slice : shard.slices) {
      if (slice.parameter != "fc1.weight") continue;
      std::vector<std::byte> arrays;
      for (int array : {30, 31}) {
        for (uint64_t i = 0; i < slice.spec.count(); ++i) {
          const float value = TestValue(1, array, 0, slice.spec.offset() + i);
          const auto bytes = std::as_bytes(std::span(&value, 1));
          arrays.insert(arrays.end(), bytes.begin(), bytes.end());
        }
      }
      const uint32_t memory = CODEC_DGC;
      const auto bytes = std::as_bytes(std::span(&memory, 1));
      arrays.insert(arrays.end(), bytes.begin(), bytes.end());
      shard.residuals[kWorker].emplace_back(slice.id, Bytes::Adopt(std::move(arrays)));
    }
  }
  auto loaded = LoadedCheckpoint::Assemble(manifest, shards);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (uint64_t offset : {0, 500, 1023}) {
    constexpr uint64_t kCount = 1100;
    const Bytes cut = loaded->Extract("fc1.weight", offset, kCount)->residuals.at(kWorker);
    const auto state = ReadSavedState(cut.span(), kCount);
    ASSERT_TRUE(state.has_value());
    EXPECT_EQ(state->memory, uint32_t{CODEC_DGC});
    const auto* values = reinterpret_cast<const float*>(cut.data());
    for (uint64_t i = 0; i < 2 * kCount; ++i) {
      const int array = i < kCount ? 30 : 31;
      ASSERT_EQ(values[i], TestValue(1, array, 0, offset + i % kCount)) << offset << " " << i;
    }
  }
}

TEST_F(CheckpointTest, HandsTheStatesOfProgramsToAnyNumberOfWorkers) {
  const Placement placement = TestPlacement(2);
  CheckpointManifest manifest = TestManifest(1, placement);
  for (uint32_t shard = 0; shard < 2; ++shard) manifest.add_shards()->set_shard(shard);
  auto shards = TestSnapshots(1, placement, 2);
  const auto part = [](int value) { return Bytes::Adopt({static_cast<std::byte>(value)}); };
  shards[0].residuals[0].emplace_back(kProgramState, part(1));
  shards[1].residuals[0].emplace_back(kProgramState + 1, part(2));
  shards[0].residuals[2].emplace_back(kProgramState, part(3));
  const auto loaded = LoadedCheckpoint::Assemble(manifest, shards);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto states = loaded->ProgramStates(4);
  ASSERT_EQ(states.size(), 4u);
  EXPECT_EQ(states.at(0).size(), 2u);
  EXPECT_EQ(states.at(1).size(), 2u);  // as worker 0's: the checkpoint has no worker 1
  EXPECT_EQ(states.at(2).size(), 1u);
  EXPECT_EQ(loaded->ProgramStates(2).size(), 2u);
  // A part that is too large, or there twice.
  shards[1].residuals[2].emplace_back(kProgramState, part(4));
  EXPECT_FALSE(LoadedCheckpoint::Assemble(manifest, shards).ok());
  shards[1].residuals[2].back() = {kProgramState + 1, Bytes()};
  EXPECT_FALSE(LoadedCheckpoint::Assemble(manifest, shards).ok());
}

TEST_F(CheckpointTest, RefusesCutsThatDoNotFit) {
  Write(1, 1);
  auto loaded = store_.LoadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(std::string(loaded->Extract("fc9.weight", 0, 1).status().message()),
              HasSubstr("no parameter fc9.weight"));
  EXPECT_FALSE(loaded->Extract("fc1.bias", 0, 101).ok());
  EXPECT_FALSE(loaded->Extract("fc1.bias", 101, 0).ok());
  EXPECT_FALSE(loaded->Extract("fc1.bias", UINT64_MAX, 2).ok());
  EXPECT_TRUE(loaded->Extract("fc1.bias", 100, 0).ok());
  EXPECT_EQ(loaded->Weights("fc1.bias").size(), 400u);
  EXPECT_TRUE(loaded->Weights("fc9.weight").empty());
}

}  // namespace
}  // namespace psgd
