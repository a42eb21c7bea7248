#include "common/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace psgd {
namespace {

std::vector<uint32_t> Words(const PhiloxBlock& block) { return {block.word, block.word + 4}; }

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Words(Philox({0, 0}, 0, 0)),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Words(Philox({0xffffffff, 0xffffffff}, UINT64_MAX, UINT64_MAX)),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Words(Philox({0xa4093822, 0x299f31d0}, 0x85a308d3243f6a88, 0x0370734413198a2e)),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UnitFloatsAreInRangeAndExact) {
  EXPECT_EQ(UnitFloat(0), 0.0f);
  EXPECT_EQ(UnitFloat(0xff), 0.0f);
  EXPECT_EQ(UnitFloat(0x100), std::ldexp(1.0f, -24));
  EXPECT_EQ(UnitFloat(UINT32_MAX), 1.0f - std::ldexp(1.0f, -24));
}

TEST(Philox, KeysDifferBySeedPurposeAndSalt) {
  std::set<std::pair<uint32_t, uint32_t>> keys;
  for (uint64_t seed : {0, 1, 2}) {
    for (RandomPurpose purpose : {RandomPurpose::kShuffle, RandomPurpose::kDropout}) {
      for (uint64_t salt : {0, 1, 7}) {
        const PhiloxKey key = MakeKey(seed, purpose, salt);
        keys.insert({key.low, key.high});
      }
    }
  }
  EXPECT_EQ(keys.size(), 3u * 2u * 3u);
}

TEST(RandomStream, WalksOneStreamOfBlocks) {
  const PhiloxKey key{3, 4};
  RandomStream stream(key, 9);
  for (uint64_t counter = 0; counter < 3; ++counter) {
    for (uint32_t word : Words(Philox(key, counter, 9))) EXPECT_EQ(stream.NextBits(), word);
  }
}

TEST(RandomStream, BelowIsBelowAndReachesEverything) {
  RandomStream stream({1, 2}, 0);
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) ++seen[stream.NextBelow(7)];
  for (int count : seen) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
}

}  // namespace
}  // namespace psgd
