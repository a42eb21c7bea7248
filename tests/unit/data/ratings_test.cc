#include "data/ratings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

using testing::HasSubstr;

struct Pair {
  int32_t user = 0, item = 0, label = 0;
};

Pair ReadPair(const Dataset& set, uint32_t epoch, size_t index) {
  std::vector<int32_t> indices(2);
  std::vector<float> values(2);
  Pair pair;
  EXPECT_TRUE(set.Read({epoch, index}, {values, indices, {&pair.label, 1}}).ok());
  EXPECT_THAT(values, testing::ElementsAre(1, 1));
  pair.user = indices[0];
  pair.item = indices[1];
  return pair;
}

TrainAndTest Load(const std::string& text, int negatives = 3) {
  ScratchFolder folder;
  WriteFile(folder.File("r"), text);
  DataConfig config;
  config.set_path(folder.File("r"));
  config.mutable_ratings()->set_negatives(negatives);
  config.mutable_ratings()->set_test_negatives(negatives);
  auto sets = LoadRatings(config, /*seed=*/1);
  EXPECT_TRUE(sets.ok()) << sets.status();
  return *std::move(sets);
}

// Three users, items a to h. A user's last choice by time is for the test.
constexpr char kRatings[] =
    "u1::a::5::30\nu1::b::3::10\nu1::c::4::20\nu2::c::1::5\nu2::d::1::6\nu3::e::1::1\n"
    "u2::f::1::3\nu2::g::1::2\nu2::h::1::1\n";

TEST(Ratings, TheLastChoiceOfEachUserIsForTheTest) {
  const TrainAndTest sets = Load(kRatings);
  EXPECT_EQ(sets.train->shape().vocabulary, 3 + 8);
  EXPECT_EQ(sets.train->size(), 7u * 4);  // u3 has one choice only, which stays in training
  ASSERT_EQ(sets.test->size(), 2u * 4);
  const Pair first = ReadPair(*sets.test, 0, 0), second = ReadPair(*sets.test, 0, 4);
  EXPECT_EQ(first.user, 0);
  EXPECT_EQ(first.item, 3 + 0);   // a, at 30
  EXPECT_EQ(second.item, 3 + 3);  // d, at 6
  EXPECT_EQ(first.label, 1);
}

TEST(Ratings, WhatTheTestAsksForIsNotTrainedOn) {
  // u1's last choice is a, again. u2 chose only one item, twice: it stays in training.
  const TrainAndTest sets =
      Load("u1::a::5::1\nu1::b::3::2\nu1::a::4::3\nu2::c::1::1\nu2::c::1::2\nu3::d::1::1\n", 1);
  ASSERT_EQ(sets.test->size(), 1u * 2);
  EXPECT_EQ(ReadPair(*sets.test, 0, 0).item, 3 + 0);
  std::vector<std::pair<int32_t, int32_t>> trained;
  for (size_t i = 0; i < sets.train->size(); i += 2) {
    const Pair pair = ReadPair(*sets.train, 0, i);
    trained.emplace_back(pair.user, pair.item);
  }
  EXPECT_THAT(trained, testing::ElementsAre(testing::Pair(0, 3 + 1), testing::Pair(1, 3 + 2),
                                            testing::Pair(1, 3 + 2), testing::Pair(2, 3 + 3)));
}

TEST(Ratings, NegativesAreNeverChosenAndNewEachEpoch) {
  const TrainAndTest sets = Load(kRatings, 5);
  std::set<std::pair<int32_t, int32_t>> chosen = {{0, 3}, {0, 4}, {0, 5}, {1, 5}, {1, 6},
                                                  {2, 7}, {1, 8}, {1, 9}, {1, 10}};
  bool differs = false;
  for (size_t i = 0; i < sets.train->size(); ++i) {
    const Pair pair = ReadPair(*sets.train, 0, i), later = ReadPair(*sets.train, 1, i);
    EXPECT_EQ(pair.label, i % 6 == 0 ? 1 : 0);
    EXPECT_EQ(chosen.count({pair.user, pair.item}) > 0, pair.label == 1);
    EXPECT_EQ(ReadPair(*sets.train, 0, i).item, pair.item);
    differs |= later.item != pair.item;
  }
  EXPECT_TRUE(differs);
  for (size_t i = 0; i < sets.test->size(); ++i) {
    EXPECT_EQ(ReadPair(*sets.test, 0, i).item, ReadPair(*sets.test, 1, i).item);
  }
}

// If a user chose nearly everything, a draw hardly ever finds the rest.
TEST(Ratings, NegativesOfWhoChoseAllButOne) {
  constexpr int kItems = 3000;
  std::string text;
  for (int item = 0; item < kItems - 1; ++item) text += "all::" + std::to_string(item) + "::1::1\n";
  const TrainAndTest sets = Load(text + "other::rare::1::1\nother::0::1::2\n", 4);
  const SampleShape shape = sets.train->shape();
  ASSERT_EQ(shape.vocabulary, 2 + kItems);
  for (size_t i = 0; i < sets.train->size(); ++i) {
    const Pair pair = ReadPair(*sets.train, 0, i);
    if (pair.user == 0 && pair.label == 0) {
      EXPECT_EQ(pair.item, 2 + kItems - 1);
    }
  }
}

TEST(Ratings, TakesTabsCommasAndANameLine) {
  EXPECT_EQ(
      Load("userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n1,32,2,1260759145\n2,33,1,5\n")
          .test->size(),
      4u);
  EXPECT_EQ(Load("1\t31\t2\t7\n1\t32\t2\t6\n2\t33\t1\t1\n").train->size(), 2u * 4);
}

TEST(Ratings, ErrorsNameTheLine) {
  ScratchFolder folder;
  const auto error = [&](const char* text) {
    WriteFile(folder.File("r"), text);
    DataConfig config;
    config.set_path(folder.File("r"));
    const auto status = LoadRatings(config, /*seed=*/1).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_THAT(error("1::2::3::4\n1::3::x::4\n"), HasSubstr("r:2: not a user"));
  EXPECT_THAT(error("alone\n"), HasSubstr("r:1: not a user"));
  EXPECT_THAT(error("1::2::3::4\n1::3\n"), HasSubstr("between `::`, tabs or commas: 2 of these"));
  EXPECT_THAT(error("1\t2\t3\n"), HasSubstr("3 of these"));
  EXPECT_THAT(error("me::1::3::4\nme::2::3::5\nme::1::3::6\nyou::2::3::4\n"),
              HasSubstr("user me chose all 2 items"));
  EXPECT_THAT(error("1::2::3::4\n2::2::3::4\n"), HasSubstr("too few to tell"));
  EXPECT_THAT(error("1::2::3::4\n2::3::3::4\n"), HasSubstr("no user who chose two items"));
}

}  // namespace
}  // namespace psgd
