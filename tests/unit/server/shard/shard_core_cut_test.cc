// Checkpoints: cuts have exactly the right contents, with the workers' state.
#include "common/program_state.h"
#include "compression/saved_state.h"
#include "server/shard/left_residuals.h"
#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

class ShardCutTest : public testing::TestWithParam<int64_t> {
 protected:
  TakeCheckpoint Take(uint64_t id, uint64_t clock, const std::vector<uint32_t>& savers) {
    TakeCheckpoint take{id, clock, {}};
    for (uint32_t worker : savers) take.savers.push_back(ShardFixture::Key(worker));
    return take;
  }
  Values Saved(const ShardCut& cut, uint32_t slice) {
    const auto values = Floats(cut.snapshot.slices[slice].weights);
    return {values.begin(), values.end()};
  }
};
INSTANTIATE_TEST_SUITE_P(Staleness, ShardCutTest, testing::Values(0, 2, -1));

TEST_P(ShardCutTest, HoldsLaterPushesBackUntilItIsComplete) {
  ShardFixture shard({.staleness = GetParam()});
  shard.Start(2);
  ASSERT_TRUE(shard.Execute(Take(7, 1, {0, 1})).ok());
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Acknowledged(ShardFixture::SaveOf(0, 2, 7, {{0, {9, 9, 9, 9}}}));
  // The fast worker goes on: its push is acknowledged, but not in the weights.
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(0, 3, 2, {{0, {4, 4, 4, 4}}})), 4u);
  EXPECT_EQ(shard.Weights(0)[0], GetParam() == 0 ? 0 : -1);
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {2, 2, 2, 2}}}));
  EXPECT_EQ(shard.Weights(0)[0], -3);
  EXPECT_FALSE(shard.core().TakeFinishedCut().has_value());  // worker 1's state is missing
  shard.Acknowledged(ShardFixture::SaveOf(1, 2, 7, {}));
  const auto cut = shard.core().TakeFinishedCut();
  ASSERT_TRUE(cut.has_value());
  EXPECT_FALSE(shard.core().TakeFinishedCut().has_value());
  EXPECT_EQ(cut->checkpoint, 7u);
  EXPECT_EQ(Saved(*cut, 0), (Values{-3, -3, -3, -3}));
  EXPECT_EQ(cut->snapshot.slices[0].version, 2u);
  EXPECT_EQ(cut->snapshot.slices[0].parameter, "p0");
  ASSERT_EQ(cut->snapshot.residuals.at(0).size(), 1u);
  EXPECT_EQ(Floats(cut->snapshot.residuals.at(0)[0].second)[0], 9);
  // Now the push is in the weights (at staleness 0 together with the other worker's push).
  if (GetParam() == 0) shard.Acknowledged(ShardFixture::PushOf(1, 3, 2, {}));
  EXPECT_EQ(shard.Weights(0)[0], -7);
  // The cut's contents did not change.
  EXPECT_EQ(Saved(*cut, 0), (Values{-3, -3, -3, -3}));
}

// Otherwise a worker would compute step after step from weights without its own updates.
TEST_P(ShardCutTest, NoWeightsAreGivenForWhatItHoldsBack) {
  ShardFixture shard({.staleness = GetParam()});
  shard.Start(2);
  ASSERT_TRUE(shard.Execute(Take(7, 1, {0, 1})).ok());
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Acknowledged(ShardFixture::SaveOf(0, 2, 7, {}));
  shard.Acknowledged(ShardFixture::PushOf(0, 3, 2, {{0, {4, 4, 4, 4}}}));
  Message pull = ShardFixture::PullOf(0, 1, 2);
  pull.header.mutable_pull()->set_own_clock(2);
  EXPECT_TRUE(shard.Send(std::move(pull)).empty());
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {2, 2, 2, 2}}}));
  auto replies = shard.Send(ShardFixture::SaveOf(1, 2, 7, {}));
  ASSERT_TRUE(shard.core().TakeFinishedCut().has_value());
  if (GetParam() == 0) replies = shard.Send(ShardFixture::PushOf(1, 3, 2, {}));
  EXPECT_TRUE(std::any_of(replies.begin(), replies.end(),
                          [](const auto& reply) { return reply.message.header.has_pull_reply(); }));
}

TEST_P(ShardCutTest, IsTakenAtOnceWhenNobodyIsIn) {
  ShardFixture shard({.staleness = GetParam()});
  shard.Start(1);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Remove(0);
  ASSERT_TRUE(shard.Execute(Take(1, 1, {})).ok());
  EXPECT_TRUE(shard.core().TakeFinishedCut().has_value());
}

TEST_P(ShardCutTest, IsTakenThoughNobodyIsLeftToFillItsClock) {
  ShardFixture shard({.staleness = GetParam()});
  shard.Start(1);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Remove(0);  // its push for clock 2 went to other shards only
  ASSERT_TRUE(shard.Execute(Take(1, 2, {})).ok());
  const auto cut = shard.core().TakeFinishedCut();
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(Saved(*cut, 0)[0], -1);
}

TEST_P(ShardCutTest, DoesNotWaitForADeadWorker) {
  ShardFixture shard({.staleness = GetParam()});
  shard.Start(2);
  ASSERT_TRUE(shard.Execute(Take(1, 1, {0, 1})).ok());
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Acknowledged(ShardFixture::SaveOf(0, 2, 1, {}));
  shard.Acknowledged(ShardFixture::PushOf(0, 3, 2, {{0, {1, 1, 1, 1}}}));
  EXPECT_FALSE(shard.core().TakeFinishedCut().has_value());
  shard.Remove(1);
  const auto cut = shard.core().TakeFinishedCut();
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(Saved(*cut, 0)[0], -1);
  EXPECT_EQ(shard.Weights(0)[0], -2);
}

TEST_P(ShardCutTest, HeldPushesOfADeadWorkerStillCount) {
  ShardFixture shard({.staleness = GetParam()});
  shard.Start(2);
  ASSERT_TRUE(shard.Execute(Take(1, 1, {0, 1})).ok());
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Acknowledged(ShardFixture::SaveOf(0, 2, 1, {}));
  shard.Acknowledged(ShardFixture::PushOf(0, 3, 2, {{0, {5, 5, 5, 5}}}));
  shard.Remove(0);
  shard.Admit(0, 2);  // another worker takes the number before the cut is complete
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {}));
  shard.Acknowledged(ShardFixture::SaveOf(1, 2, 1, {}));
  const auto cut = shard.core().TakeFinishedCut();
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(Saved(*cut, 0)[0], -1);
  if (GetParam() == 0) shard.Acknowledged(ShardFixture::PushOf(1, 3, 2, {}));
  EXPECT_EQ(shard.Weights(0)[0], -6);
}

TEST_P(ShardCutTest, ANewOneReleasesWhatAnAbandonedOneHeld) {
  ShardFixture shard({.staleness = GetParam()});
  shard.Start(2);
  // The first cut fails on another shard while this shard still waits for worker 1.
  ASSERT_TRUE(shard.Execute(Take(1, 1, {0, 1})).ok());
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Acknowledged(ShardFixture::SaveOf(0, 2, 1, {}));
  shard.Acknowledged(ShardFixture::PushOf(0, 3, 2, {{0, {1, 1, 1, 1}}}));
  ASSERT_TRUE(shard.Execute(Take(2, 2, {0, 1})).ok());
  shard.Acknowledged(ShardFixture::SaveOf(0, 4, 2, {}));
  shard.Acknowledged(ShardFixture::PushOf(0, 5, 3, {{0, {1, 1, 1, 1}}}));
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {}));
  shard.Acknowledged(ShardFixture::PushOf(1, 2, 2, {}));
  shard.Acknowledged(ShardFixture::SaveOf(1, 3, 2, {}));
  const auto cut = shard.core().TakeFinishedCut();
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->checkpoint, 2u);
  EXPECT_EQ(Saved(*cut, 0)[0], -2);
}

TEST_P(ShardCutTest, RefusesStateThatDoesNotFit) {
  ShardFixture shard({.staleness = GetParam()});
  shard.Start(1);
  ASSERT_TRUE(shard.Execute(Take(1, 0, {0})).ok());
  EXPECT_EQ(shard.Refused(ShardFixture::SaveOf(0, 2, 1, {})).reason(), Refusal::OUT_OF_ORDER);
  EXPECT_EQ(shard.Refused(ShardFixture::SaveOf(0, 1, 1, {{0, {1, 2}}}, false)).reason(),
            Refusal::MALFORMED);
  EXPECT_EQ(shard.Refused(ShardFixture::SaveOf(0, 2, 1, {{9, {1, 2, 3, 4}}}, false)).reason(),
            Refusal::MALFORMED);
  Message uneven = ShardFixture::SaveOf(0, 3, 1, {{0, {1, 2, 3, 4}}}, false);
  uneven.payloads.clear();
  EXPECT_EQ(shard.Refused(uneven).reason(), Refusal::MALFORMED);
  EXPECT_EQ(shard.Refused(ShardFixture::SaveOf(0, 4, 1, {{0, Values(12, 1)}}, false)).reason(),
            Refusal::MALFORMED);
  // A residual, and an array that the worker's encoder remembers.
  const Values state = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(shard.Refused(ShardFixture::SaveOf(0, 5, 1, {{1, state}}, false)).reason(),
            Refusal::MALFORMED);
  Message last = ShardFixture::SaveOf(0, 6, 1, {{1, {}}});
  last.payloads[0] = MakeSavedState(state, CODEC_DGC);
  EXPECT_EQ(shard.Acknowledged(last), 7u);
  EXPECT_EQ(shard.Acknowledged(last), 7u);
  const auto cut = shard.core().TakeFinishedCut();
  ASSERT_TRUE(cut.has_value());
  ASSERT_EQ(cut->snapshot.residuals.at(0).size(), 1u);
  EXPECT_EQ(cut->snapshot.residuals.at(0)[0].first, 1u);
  EXPECT_EQ(Floats(cut->snapshot.residuals.at(0)[0].second)[7], 8);
}

TEST_P(ShardCutTest, WhatItWaitsForIsNeverSentAway) {
  ShardFixture shard({.staleness = GetParam(), .held_bytes = 20});
  shard.Start(2);
  ASSERT_TRUE(shard.Execute(Take(1, 1, {0, 1})).ok());
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {{0, {1, 1, 1, 1}}}));
  shard.Acknowledged(ShardFixture::SaveOf(0, 2, 1, {}));
  Message later = ShardFixture::PushOf(0, 3, 2, {{0, {1, 1, 1, 1}}});
  if (GetParam() != 0) {
    EXPECT_EQ(shard.Acknowledged(later), 4u);  // the first push is always held
    later = ShardFixture::PushOf(0, 4, 3, {{0, {1, 1, 1, 1}}});
  }
  EXPECT_EQ(shard.Refused(later).reason(), Refusal::OVERLOADED);
  EXPECT_EQ(shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {{0, {1, 1, 1, 1}}})), 2u);
  shard.Acknowledged(ShardFixture::SaveOf(1, 2, 1, {}));
  EXPECT_TRUE(shard.core().TakeFinishedCut().has_value());
  shard.Acknowledged(later);
}

// A checkpoint with residuals of workers 0 and 1 in all slices, or of other workers.
std::shared_ptr<const LoadedCheckpoint> CheckpointOf(ShardFixture& shard,
                                                     const std::vector<uint32_t>& workers = {0,
                                                                                             1}) {
  ShardSnapshot snapshot;
  CheckpointManifest manifest;
  *manifest.mutable_model() = *shard.install().model;
  *manifest.mutable_placement() = *shard.install().placement;
  manifest.mutable_placement()->add_endpoints("tcp://x");
  manifest.add_shards();
  const auto slices = static_cast<uint32_t>(shard.install().placement->slices_size());
  for (uint32_t id = 0; id < slices; ++id) {
    SliceSnapshot& slice = snapshot.slices.emplace_back();
    slice.id = id;
    slice.spec = shard.install().placement->slices(static_cast<int>(id));
    slice.parameter = shard.install().model->parameters(static_cast<int>(id)).name();
    slice.version = 5;
    slice.weights = BytesOf({1, 2, 3, 4});
    for (const uint32_t worker : workers) {
      snapshot.residuals[worker].emplace_back(id, BytesOf(Values(4, worker + 0.5f)));
    }
  }
  auto loaded = LoadedCheckpoint::Assemble(manifest, {snapshot});
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return std::make_shared<LoadedCheckpoint>(*std::move(loaded));
}

TEST(ShardResume, HandsOverManySmallStatesInSeveralMessages) {
  ShardFixture shard({.staleness = 4, .elements = std::vector<uint32_t>(kMostParts + 1, 4)});
  shard.install().checkpoint = CheckpointOf(shard);
  shard.Start(1);
  Message load = ShardFixture::Header(0);
  load.header.mutable_load_state()->set_request(3);
  const auto out = shard.Send(load);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].message.header.state_reply().slices_size(), kMostParts);
  EXPECT_EQ(out[1].message.header.state_reply().slices_size(), 1);
  EXPECT_TRUE(out[1].message.header.state_reply().last());
}

TEST(ShardResume, HandsSavedStateToTheSameWorkerUntilItPushes) {
  ShardFixture shard({.staleness = 4, .state_reply_bytes = 1});
  shard.install().checkpoint = CheckpointOf(shard);
  shard.Start(3);
  EXPECT_EQ(shard.Weights(1), (Values{1, 2, 3, 4}));
  Message load = ShardFixture::Header(1);
  load.header.mutable_load_state()->set_request(3);
  for (int times = 0; times < 2; ++times) {
    const auto out = shard.Send(load);
    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(out[0].message.header.state_reply().total(), 2u);
    EXPECT_FALSE(out[0].message.header.state_reply().last());
    EXPECT_TRUE(out[1].message.header.state_reply().last());
    EXPECT_EQ(out[1].message.header.state_reply().slices(0), 1u);
    EXPECT_EQ(Floats(out[1].message.payloads[0])[0], 1.5f);
  }
  Message none = ShardFixture::Header(2);
  none.header.mutable_load_state()->set_request(4);
  const auto empty = shard.Send(none);
  ASSERT_EQ(empty.size(), 1u);
  EXPECT_EQ(empty[0].message.header.state_reply().total(), 0u);
  EXPECT_TRUE(empty[0].message.header.state_reply().last());
  // The first push carries the residual. A later owner of the number must not send it again.
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {}));
  shard.Remove(1);
  shard.Admit(1, 2);
  load.header.set_incarnation(2);
  ASSERT_EQ(shard.Send(load).size(), 1u);
  // Other workers keep their residuals.
  Message other = ShardFixture::Header(0);
  other.header.mutable_load_state()->set_request(1);
  EXPECT_EQ(shard.Send(other).size(), 2u);
}

Config ClusterOf(int workers) {
  Config config;
  config.mutable_cluster()->set_workers(workers);
  return config;
}

// The first value of each residual that the worker gets.
Values Loaded(ShardFixture& shard, uint32_t worker) {
  Message load = ShardFixture::Header(worker);
  load.header.mutable_load_state()->set_request(1);
  Values first;
  for (const Outgoing& out : shard.Send(load)) {
    for (const Bytes& payload : out.message.payloads) first.push_back(Floats(payload)[0]);
  }
  return first;
}

std::map<uint32_t, float> InCut(const ShardCut& cut) {
  std::map<uint32_t, float> first;
  for (const auto& [worker, states] : cut.snapshot.residuals) {
    EXPECT_EQ(states.size(), 2u) << worker;
    first[worker] = Floats(states[0].second)[0];
  }
  return first;
}

// Residuals of workers that the run will not have go to workers that it will have: the run has
// fewer workers, or different ones after some left.
TEST(ShardResume, HandsOnTheResidualsOfWorkersThatWillNotCome) {
  for (const auto& [workers, saved, handed] :
       {std::tuple<int, std::vector<uint32_t>, Values>{1, {0, 1, 2}, {0.5f + 1.5f + 2.5f}},
        {1, {1}, {1.5f}},
        {2, {0, 1, 2}, {0.5f + 2.5f, 1.5f}},
        {2, {3, 5}, {0, 3.5f + 5.5f}}}) {
    ShardFixture shard({.staleness = 4}, ClusterOf(workers));
    shard.install().checkpoint = CheckpointOf(shard, saved);
    shard.Start(static_cast<uint32_t>(workers) + 1);
    for (uint32_t w = 0; w < handed.size(); ++w) {
      EXPECT_EQ(Loaded(shard, w), handed[w] == 0 ? Values() : Values(2, handed[w])) << w;
    }
    EXPECT_EQ(Loaded(shard, static_cast<uint32_t>(workers)), Values());
  }
}

// An unclaimed residual is in the next checkpoints until its worker has pushed it.
TEST(ShardResume, KeepsWhatNobodyCameForInLaterCheckpoints) {
  ShardFixture shard({.staleness = 4}, ClusterOf(3));
  shard.install().checkpoint = CheckpointOf(shard, {0, 1, 2});
  shard.Start(1);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {}));
  TakeCheckpoint take{1, 1, {ShardFixture::Key(0)}};
  ASSERT_TRUE(shard.Execute(take).ok());
  // A worker that joins behind the cut pushes its loaded residual before the cut is complete.
  shard.Admit(1);
  shard.Begin(1, 1000, {0, 1});
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 2, {}));
  shard.Acknowledged(ShardFixture::SaveOf(0, 2, 1, {{0, Values(4, 7)}, {1, Values(4, 7)}}));
  auto cut = shard.core().TakeFinishedCut();
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(InCut(*cut), (std::map<uint32_t, float>{{0, 7}, {1, 1.5f}, {2, 2.5f}}));
  // The next checkpoint gets the second worker's residual from the worker itself.
  take = {2, 2, {ShardFixture::Key(0), ShardFixture::Key(1)}};
  ASSERT_TRUE(shard.Execute(take).ok());
  shard.Acknowledged(ShardFixture::PushOf(0, 3, 2, {}));
  shard.Acknowledged(ShardFixture::SaveOf(0, 4, 2, {}));
  shard.Acknowledged(ShardFixture::SaveOf(1, 2, 2, {{0, Values(4, 8)}, {1, Values(4, 8)}}));
  cut = shard.core().TakeFinishedCut();
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(InCut(*cut), (std::map<uint32_t, float>{{1, 8}, {2, 2.5f}}));
}

// What the program of a worker that left kept is in the next checkpoint.
TEST(ShardCut, HasTheStateOfAProgramThatLeft) {
  ShardFixture shard({.staleness = 4});
  shard.Start(2);
  shard.Acknowledged(ShardFixture::PushOf(0, 1, 1, {}));
  shard.Acknowledged(ShardFixture::PushOf(1, 1, 1, {}));
  shard.Acknowledged(
      ShardFixture::SaveOf(1, 2, /*checkpoint=*/0, {{kProgramState, {3}}, {1, Values(4, 8)}}));
  EXPECT_EQ(shard.Refused(ShardFixture::SaveOf(1, 3, 0, {{77, {3}}})).reason(), Refusal::MALFORMED);
  shard.Remove(1);
  TakeCheckpoint take{1, 1, {ShardFixture::Key(0)}};
  ASSERT_TRUE(shard.Execute(take).ok());
  shard.Acknowledged(ShardFixture::SaveOf(0, 2, 1, {{kProgramState, {2}}}));
  const auto cut = shard.core().TakeFinishedCut();
  ASSERT_TRUE(cut.has_value());
  for (const uint32_t worker : {0u, 1u}) {
    ASSERT_EQ(cut->snapshot.residuals.at(worker).size(), 1u);  // its residual was pushed
    EXPECT_EQ(cut->snapshot.residuals.at(worker)[0].first, kProgramState);
    EXPECT_EQ(Floats(cut->snapshot.residuals.at(worker)[0].second)[0], 2.0f + worker);
  }
}

// The heir keeps its own memory. The memories of the others are given up.
TEST(ShardResume, HandsOnNoMemories) {
  std::map<uint32_t, Bytes> states;
  states[0] = MakeSavedState(Values{1, 2, 5, 6}, CODEC_DGC);
  states[2] = MakeSavedState(Values{10, 20, 50, 60}, CODEC_DGC);
  states[3] = MakeSavedState(Values{3, 4, 7, 8}, CODEC_DGC);
  HandOnResiduals(2, 2, &states);
  ASSERT_EQ(states.size(), 2u);
  const Bytes sum = MakeSavedState(Values{11, 22, 5, 6}, CODEC_DGC), alone = BytesOf({3, 4});
  EXPECT_TRUE(std::ranges::equal(states[0].span(), sum.span()));
  EXPECT_TRUE(std::ranges::equal(states[1].span(), alone.span()));
}

}  // namespace
}  // namespace psgd
