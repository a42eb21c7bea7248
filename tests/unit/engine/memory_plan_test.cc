#include "engine/graph/memory_plan.h"

#include <gtest/gtest.h>

#include "common/philox.h"

namespace psgd {
namespace {

TEST(MemoryPlanTest, BuffersAliveTogetherNeverOverlap) {
  MemoryPlan plan;
  RandomStream random({1, 2}, 3);
  std::vector<BufferId> ids;
  for (int node = 0; node < 60; ++node) {
    plan.BeginNode(node);
    ids.push_back(plan.Add(1 + random.NextBelow(5000)));
    plan.Use(ids[random.NextBelow(static_cast<uint32_t>(ids.size()))]);
  }
  plan.Arrange();
  size_t total = 0;
  for (const Buffer& a : plan.buffers()) {
    EXPECT_EQ(a.offset % MemoryPlan::kAlignment, 0u);
    EXPECT_LE(a.offset + a.bytes, plan.temporary_bytes());
    total += a.bytes;
    for (const Buffer& b : plan.buffers()) {
      if (&a == &b || a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
    }
  }
  EXPECT_LT(plan.temporary_bytes(), total);
}

TEST(MemoryPlanTest, AChainNeedsTwoBuffers) {
  MemoryPlan plan;
  BufferId last = kNoBuffer;
  for (int node = 0; node < 20; ++node) {
    plan.BeginNode(node);
    if (last != kNoBuffer) plan.Use(last);
    last = plan.Add(1024);
  }
  plan.Arrange();
  EXPECT_EQ(plan.temporary_bytes(), 2048u);
}

TEST(MemoryPlanTest, PersistentBuffersShareNothing) {
  MemoryPlan plan;
  plan.BeginNode(0);
  plan.AddPersistent(100);
  plan.BeginNode(1);
  plan.AddPersistent(100);
  plan.Arrange();
  EXPECT_EQ(plan.persistent_bytes(), 2 * MemoryPlan::kAlignment);
  EXPECT_NE(plan.buffers()[0].offset, plan.buffers()[1].offset);
}

TEST(MemoryPlanTest, TheCrowdedNodeHasTheMostBytesAlive) {
  MemoryPlan plan;
  plan.BeginNode(0);
  const BufferId long_lived = plan.Add(100, 7);
  plan.BeginNode(1);
  plan.Add(300);
  plan.BeginNode(2);
  plan.Add(250);
  plan.Use(long_lived);
  plan.AddPersistent(5000);
  plan.BeginNode(3);
  plan.Add(340);
  EXPECT_EQ(plan.CrowdedNode(), 1);
  EXPECT_EQ(plan.buffers()[long_lived].tensor, 7);
}

}  // namespace
}  // namespace psgd
