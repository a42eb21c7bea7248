#include <gmock/gmock.h>

#include "server/checkpoint_store.h"
#include "tests/unit/server/checkpoint_fixture.h"

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
