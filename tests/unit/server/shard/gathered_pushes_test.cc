// Pushes that wait for other workers, by clock and slice.
#include "server/shard/gathered_pushes.h"

#include <gmock/gmock.h>

#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

using ::testing::ElementsAre;

// Each payload is for these slices.
std::vector<SharedPayload> For(const std::vector<std::vector<size_t>>& slices) {
  std::vector<SharedPayload> payloads;
  int first = 0;
  for (const std::vector<size_t>& group : slices) {
    payloads.push_back(
        {.first = first, .payload = payloads.size(), .slices = group, .shapes = {}, .opened = {}});
    first += static_cast<int>(group.size());
  }
  return payloads;
}

std::vector<uint32_t> Workers(std::span<const GatheredPayload> payloads) {
  std::vector<uint32_t> workers;
  for (const GatheredPayload& payload : payloads) workers.push_back(payload.worker);
  return workers;
}

class GatheredPushesTest : public testing::Test {
 protected:
  void Add(uint32_t worker, uint64_t clock, const std::vector<std::vector<size_t>>& slices) {
    std::vector<std::pair<uint32_t, Values>> parts;
    for (const auto& group : slices) {
      parts.emplace_back(group[0], Values{1});
    }
    gathered_.Add(clock, ShardFixture::PushOf(worker, 1, clock, parts), For(slices));
  }
  GatheredPushes gathered_;
};

TEST_F(GatheredPushesTest, ASlicesPayloadsAreInTheOrderOfWorkers) {
  Add(3, 7, {{0}, {1}});
  Add(1, 7, {{1}});
  Add(2, 8, {{1}});
  EXPECT_THAT(Workers(gathered_.Of(7, 1)), ElementsAre(1, 3));
  EXPECT_EQ(gathered_.bytes(), 16u);
  EXPECT_THAT(Workers(gathered_.Take(7, 1)), ElementsAre(1, 3));
  EXPECT_TRUE(gathered_.Of(7, 1).empty());
  EXPECT_TRUE(gathered_.Take(7, 1).empty());
  EXPECT_EQ(gathered_.bytes(), 8u);
  EXPECT_THAT(Workers(gathered_.TakeAll(7)), ElementsAre(3));
  EXPECT_FALSE(gathered_.Has(7));
  EXPECT_EQ(gathered_.Next(0), 8u);
  EXPECT_EQ(gathered_.Next(8), std::nullopt);
}

// A slice may not be applied ahead if a payload that begins with another slice is for it, too.
TEST_F(GatheredPushesTest, KnowsWhichSlicesShareAPayload) {
  Add(1, 7, {{0, 1}, {2}});
  Add(2, 7, {{0}, {1}, {2}});
  EXPECT_TRUE(gathered_.IsShared(7, 0));
  EXPECT_TRUE(gathered_.IsShared(7, 1));
  EXPECT_FALSE(gathered_.IsShared(7, 2));
  EXPECT_FALSE(gathered_.IsShared(8, 0));
}

TEST_F(GatheredPushesTest, AClockWithoutPayloadsIsSaved) {
  Add(1, 7, {{0}});
  gathered_.Take(7, 0);
  Add(2, 8, {});
  ShardRecord record;
  gathered_.Save(&record);
  ASSERT_EQ(record.waiting_size(), 2);
  for (int i = 0; i < 2; ++i) {
    const auto message = MessageOf(record.waiting(i));
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_EQ(message->header.push().clock(), 7u + static_cast<uint64_t>(i));
    EXPECT_EQ(message->header.push().parts_size(), 0);
  }
}

}  // namespace
}  // namespace psgd
