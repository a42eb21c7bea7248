#include "server/durability/checkpoint_database.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/server/durability/checkpoint_fixture.h"

namespace psgd {
namespace {

using CheckpointDatabaseTest = CheckpointTest;

// Numbers with the highest bit of some byte set: signed and unsigned bytes have different orders.
const std::vector<uint32_t> kNumbers = {0,     1,     127,   128,      129,      255,        256,
                                        32767, 32768, 65535, 1u << 23, 1u << 31, 0xffffffffu};

Bytes One(float value) { return Bytes::CopyOf(AsBytes(std::vector<float>{value})); }

ShardSnapshot SnapshotOf(const std::vector<uint32_t>& slices,
                         const std::vector<uint32_t>& workers) {
  ShardSnapshot snapshot;
  for (const uint32_t id : slices) {
    SliceSnapshot slice;
    slice.id = id;
    slice.spec.set_count(1);
    slice.parameter = std::to_string(id);
    slice.version = id;
    slice.weights = One(static_cast<float>(id));
    for (int state = 0; state < 3; ++state) {
      slice.states.emplace_back(std::to_string(state), One(static_cast<float>(state)));
    }
    snapshot.slices.push_back(std::move(slice));
  }
  for (const uint32_t worker : workers) {
    for (const uint32_t id : slices) {
      snapshot.residuals[worker].emplace_back(id, One(static_cast<float>(worker)));
      snapshot.shown[worker].emplace_back(id, One(static_cast<float>(id)));
    }
  }
  return snapshot;
}

TEST_F(CheckpointDatabaseTest, AnyNumbersOfSlicesAndWorkersComeBack) {
  const ShardSnapshot written = SnapshotOf(kNumbers, kNumbers);
  const std::string folder = root_ + "/shard";
  const auto receipt = WriteShardDatabase(folder, 0, written);
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  const auto read = ReadShardDatabase(folder, *receipt);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->slices.size(), kNumbers.size());
  for (size_t i = 0; i < kNumbers.size(); ++i) {
    EXPECT_EQ(read->slices[i].id, kNumbers[i]);
    EXPECT_EQ(read->slices[i].version, kNumbers[i]);
    EXPECT_EQ(read->slices[i].states.size(), 3u);
    EXPECT_EQ(0, std::memcmp(read->slices[i].weights.data(), written.slices[i].weights.data(), 4));
  }
  EXPECT_EQ(read->residuals.size(), kNumbers.size());
  for (const uint32_t worker : kNumbers) {
    EXPECT_EQ(read->residuals.at(worker).size(), kNumbers.size());
    EXPECT_EQ(read->shown.at(worker).size(), kNumbers.size());
  }
}

}  // namespace
}  // namespace psgd
