// A checkpoint with right checksums whose parts do not fit each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "server/durability/checkpoint_store.h"
#include "tests/unit/server/durability/checkpoint_fixture.h"

namespace psgd {
namespace {

using ::testing::HasSubstr;

constexpr int kShards = 2;

std::string MessageAfter(
    const std::function<void(CheckpointManifest*, std::vector<ShardSnapshot>*)>& spoil) {
  const Placement placement = TestPlacement(kShards);
  CheckpointManifest manifest = TestManifest(1, placement);
  for (uint32_t shard = 0; shard < kShards; ++shard) manifest.add_shards()->set_shard(shard);
  auto shards = TestSnapshots(1, placement, kShards);
  spoil(&manifest, &shards);
  return std::string(LoadedCheckpoint::Assemble(manifest, shards).status().message());
}

TEST(CheckpointAssembleTest, AcceptsWhatFits) {
  EXPECT_EQ(MessageAfter([](auto*, auto*) {}), "");
}

TEST(CheckpointAssembleTest, RefusesMissingDoubleAndForeignSlices) {
  EXPECT_THAT(MessageAfter([](auto*, auto* s) { (*s)[0].slices.pop_back(); }),
              HasSubstr("is missing"));
  EXPECT_THAT(MessageAfter([](auto*, auto* s) { s->pop_back(); }), HasSubstr("lacks a shard"));
  EXPECT_THAT(MessageAfter([](auto*, auto* s) { (*s)[0].slices.push_back((*s)[0].slices[0]); }),
              HasSubstr("twice"));
  EXPECT_THAT(MessageAfter([](auto*, auto* s) { (*s)[0].slices[0].id = 9999; }),
              HasSubstr("slice 9999 is not in the placement"));
  EXPECT_THAT(MessageAfter([](auto*, auto* s) { std::swap((*s)[0].slices[0], (*s)[1].slices[0]); }),
              HasSubstr("not where the placement says"));
}

TEST(CheckpointAssembleTest, RefusesArraysOfTheWrongLength) {
  const Bytes four = Bytes::Adopt(std::vector<std::byte>(4));
  EXPECT_THAT(MessageAfter([&](auto*, auto* s) { (*s)[0].slices[0].weights = four; }),
              HasSubstr("wrong length"));
  EXPECT_THAT(MessageAfter([&](auto*, auto* s) { (*s)[0].residuals[0][0].second = four; }),
              HasSubstr("wrong length"));
  EXPECT_THAT(MessageAfter([](auto*, auto* s) {
                auto& residuals = (*s)[0].residuals[0];
                residuals.push_back(residuals[0]);
              }),
              HasSubstr("two residuals"));
  EXPECT_THAT(MessageAfter([](auto*, auto* s) { (*s)[0].residuals[0][0].first = 9999; }),
              HasSubstr("of no slice"));
}

TEST(CheckpointAssembleTest, RefusesOptimizerStateThatDiffers) {
  EXPECT_THAT(MessageAfter([](auto*, auto* s) {
                for (auto& slice : (*s)[0].slices) {
                  if (slice.spec.offset() > 0) slice.states.clear();
                }
              }),
              HasSubstr("differ in optimizer state"));
  EXPECT_THAT(MessageAfter([](auto*, auto* s) {
                for (auto& slice : (*s)[0].slices) {
                  if (slice.spec.offset() > 0) slice.states[0].first = "sum";
                }
              }),
              HasSubstr("differ in optimizer state"));
}

TEST(CheckpointAssembleTest, RefusesAModelThatDoesNotFit) {
  EXPECT_THAT(MessageAfter([](auto* m, auto*) {
                m->mutable_model()->mutable_parameters(0)->set_shape(0, 101);
              }),
              HasSubstr("elements"));
  EXPECT_THAT(MessageAfter([](auto* m, auto*) {
                m->mutable_model()->mutable_parameters(0)->set_name("other");
              }),
              HasSubstr("does not fit other"));
  EXPECT_THAT(MessageAfter([](auto* m, auto*) { m->mutable_model()->clear_parameters(); }),
              HasSubstr("no parameters"));
}

}  // namespace
}  // namespace psgd
