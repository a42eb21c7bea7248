// What becomes of the parts of a checkpoint that is being written.
#include "server/cluster/unsealed_checkpoint.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

using Next = UnsealedCheckpoint::Next;

effect::WritePart Part(uint64_t run_epoch, uint64_t checkpoint, uint32_t shard) {
  return {checkpoint, shard, run_epoch};
}

ShardReceipt ReceiptOf(uint64_t values) {
  ShardReceipt receipt;
  receipt.set_values(values);
  return receipt;
}

TEST(UnsealedCheckpoint, IsBegunOnceAndTakesEachPartOnce) {
  UnsealedCheckpoint unsealed;
  EXPECT_EQ(unsealed.ForPart(Part(1, 5, 0)), Next::kBegin);
  EXPECT_EQ(unsealed.ForPart(Part(1, 5, 0)), Next::kBegin) << "the disk refused it";
  unsealed.Begun(Part(1, 5, 0));
  EXPECT_EQ(unsealed.ForPart(Part(1, 5, 0)), Next::kWrite);
  unsealed.Written(0, ReceiptOf(10));
  EXPECT_EQ(unsealed.ForPart(Part(1, 5, 0)), Next::kTell);
  EXPECT_EQ(unsealed.receipt(0).values(), 10u);
  EXPECT_EQ(unsealed.ForPart(Part(1, 5, 1)), Next::kWrite);
}

TEST(UnsealedCheckpoint, PartsOfAnEarlierOneArePassedOver) {
  UnsealedCheckpoint unsealed;
  unsealed.Begun(Part(1, 5, 0));
  unsealed.Written(0, ReceiptOf(10));
  EXPECT_EQ(unsealed.ForPart(Part(1, 6, 0)), Next::kBegin);
  unsealed.Begun(Part(1, 6, 0));
  EXPECT_EQ(unsealed.ForPart(Part(1, 5, 1)), Next::kPassOver);
  EXPECT_EQ(unsealed.ForPart(Part(1, 6, 0)), Next::kWrite) << "shard 0 wrote its part of 5 only";
}

// Another server led meanwhile, and put the parts of this one aside.
TEST(UnsealedCheckpoint, IsBegunAgainUnderTheNextLeadership) {
  UnsealedCheckpoint unsealed;
  unsealed.Begun(Part(1, 5, 0));
  unsealed.Written(0, ReceiptOf(10));
  EXPECT_EQ(unsealed.ForPart(Part(3, 5, 0)), Next::kBegin);
  unsealed.Begun(Part(3, 5, 0));
  EXPECT_EQ(unsealed.ForPart(Part(3, 5, 0)), Next::kWrite);
  EXPECT_EQ(unsealed.ForPart(Part(1, 5, 1)), Next::kPassOver);
}

TEST(UnsealedCheckpoint, ThatIsGivenUpIsDiscardedAndTakesNoMoreParts) {
  UnsealedCheckpoint unsealed;
  EXPECT_FALSE(unsealed.Discard({5, 1})) << "nothing of it is on the disk";
  unsealed.Begun(Part(1, 5, 0));
  unsealed.Written(0, ReceiptOf(10));
  EXPECT_FALSE(unsealed.Discard({4, 1}));
  EXPECT_FALSE(unsealed.Discard({5, 2}));
  EXPECT_TRUE(unsealed.Discard({5, 1}));
  EXPECT_EQ(unsealed.ForPart(Part(1, 5, 0)), Next::kPassOver);
  EXPECT_EQ(unsealed.ForPart(Part(1, 5, 1)), Next::kPassOver);
  EXPECT_EQ(unsealed.ForPart(Part(1, 6, 1)), Next::kBegin);
}

}  // namespace
}  // namespace psgd
