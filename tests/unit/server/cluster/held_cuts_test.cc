#include "server/cluster/held_cuts.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

std::shared_ptr<const ShardCut> CutOf(uint64_t checkpoint) {
  ShardCut cut;
  cut.checkpoint = checkpoint;
  return std::make_shared<const ShardCut>(std::move(cut));
}

TEST(HeldCuts, ACutMadeHereStaysUntilItsCheckpointIsDone) {
  HeldCuts cuts;
  cuts.Made(2, CutOf(5));
  EXPECT_NE(cuts.Write(5, 2), nullptr);
  cuts.Written(5, 2);
  cuts.WritesNothing();
  EXPECT_NE(cuts.Find(5, 2), nullptr) << "another server may lead the run next";
  EXPECT_EQ(cuts.Find(4, 2), nullptr);
  EXPECT_EQ(cuts.Find(5, 1), nullptr);
  cuts.Done(4);
  EXPECT_NE(cuts.Find(5, 2), nullptr);
  cuts.Done(5);
  EXPECT_EQ(cuts.Find(5, 2), nullptr);
}

TEST(HeldCuts, ACutThatCameStaysUntilItIsWritten) {
  HeldCuts cuts;
  cuts.Came(1, CutOf(5));
  EXPECT_NE(cuts.Write(5, 1), nullptr);
  EXPECT_NE(cuts.Write(5, 1), nullptr) << "the disk was full";
  cuts.Written(5, 1);
  EXPECT_EQ(cuts.Find(5, 1), nullptr);
}

TEST(HeldCuts, ACutMadeHereStaysUntilItIsWrittenEvenIfItsCopyMoves) {
  HeldCuts cuts;
  cuts.Made(1, CutOf(5));
  EXPECT_NE(cuts.Write(5, 1), nullptr);
  cuts.Dropped(1);  // its copy moved to another server
  EXPECT_NE(cuts.Write(5, 1), nullptr);
  cuts.Written(4, 1);
  EXPECT_NE(cuts.Find(5, 1), nullptr);
  cuts.Written(5, 1);
  EXPECT_EQ(cuts.Find(5, 1), nullptr);
}

TEST(HeldCuts, AServerThatDoesNotLeadTheRunKeepsOnlyItsOwn) {
  HeldCuts cuts;
  cuts.Came(1, CutOf(5));
  cuts.Made(2, CutOf(5));
  cuts.WritesNothing();
  EXPECT_EQ(cuts.Find(5, 1), nullptr);
  EXPECT_NE(cuts.Find(5, 2), nullptr);
}

}  // namespace
}  // namespace psgd
