// The loop from payloads to weights: blocks, sums, sparse updates.
#include "server/shard/slice_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/philox.h"

namespace psgd {
namespace {

constexpr uint32_t kOdd = 5003;  // neither a multiple of the block nor of a vector

Config SgdConfig(double momentum = 0) {
  Config config;
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5);
  config.mutable_optimizer()->mutable_sgd()->set_momentum(momentum);
  return config;
}

std::vector<float> Random(uint32_t stream, uint32_t size = kOdd) {
  RandomStream draws({stream, 0}, 0);
  std::vector<float> values(size);
  for (float& value : values) value = draws.NextUnit() - 0.5f;
  return values;
}

class SliceUpdaterTest : public testing::Test {
 protected:
  SliceState Make(SliceUpdater& updater, const char* name = "w", uint32_t elements = kOdd) {
    ModelSpec model;
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name(name);
    parameter->add_shape(elements);
    SliceSpec spec;
    spec.set_count(elements);
    auto slice = updater.Make(0, spec, model, 1, nullptr);
    EXPECT_TRUE(slice.ok());
    return *std::move(slice);
  }
  // A payload of the codec, opened; the bytes live as long as the fixture.
  PayloadReader* Open(const CodecConfig& config, const std::vector<float>& values) {
    auto codec = MakeCodec(config);
    SliceShape shape;
    shape.elements = static_cast<uint32_t>(values.size());
    shape.tensor_rows = values.size();
    shape.tensor_columns = 1;
    payloads_.emplace_back(new std::vector<std::byte>);
    (*codec)->NewEncoder(shape)->Encode({values, {}, {}, 1}, payloads_.back().get());
    auto reader = (*codec)->Open(*payloads_.back(), shape);
    EXPECT_TRUE(reader.ok()) << reader.status();
    readers_.push_back(*std::move(reader));
    codecs_.push_back(*std::move(codec));
    return readers_.back().get();
  }
  PayloadReader* Dense(const std::vector<float>& values) {
    CodecConfig none;
    none.mutable_none();
    return Open(none, values);
  }
  PayloadReader* Topk(const std::vector<float>& values, double density) {
    CodecConfig topk;
    topk.mutable_topk()->set_density(density);
    return Open(topk, values);
  }

  std::vector<std::unique_ptr<std::vector<std::byte>>> payloads_;
  std::vector<std::unique_ptr<Codec>> codecs_;
  std::vector<std::unique_ptr<PayloadReader>> readers_;
};

TEST_F(SliceUpdaterTest, OnePushIsOneStepOverEveryElement) {
  SliceUpdater updater(SgdConfig());
  SliceState slice = Make(updater);
  const auto gradient = Random(1);
  const Contribution contribution{Dense(gradient), 1, 0, {}};
  updater.Apply(slice, {&contribution, 1}, {0.5});
  for (uint32_t i = 0; i < kOdd; ++i) ASSERT_EQ(slice.weights.read()[i], 0.0f - 0.5f * gradient[i]);
  EXPECT_EQ(slice.version, 1u);
  EXPECT_EQ(slice.steps, 1u);
}

// Decay would fill a sparse parameter's pushes, so the shard adds it: once, to the mean of two
// pushes.
TEST_F(SliceUpdaterTest, DecaysSparseParametersItself) {
  Config config = SgdConfig();
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("table");
  parameter->add_shape(kOdd);
  parameter->set_decay(true);
  parameter->set_sparse(true);
  parameter->mutable_initializer()->mutable_constant()->set_value(2);
  SliceSpec spec;
  spec.set_count(kOdd);
  const auto gradient = Random(1);
  const auto decayed = [&](const Config& run) {
    SliceUpdater updater(run);
    auto slice = updater.Make(0, spec, model, 1, nullptr);
    EXPECT_TRUE(slice.ok());
    const Contribution contributions[] = {{Dense(gradient), 0.5f, 0, {}},
                                          {Dense(gradient), 0.5f, 0, {}}};
    updater.Apply(*slice, contributions, {0.5, 0.1});
    return std::vector<float>(slice->weights.read().begin(), slice->weights.read().end());
  };
  const auto weights = decayed(config);
  for (uint32_t i = 0; i < kOdd; ++i) {
    ASSERT_NEAR(weights[i], 2 - 0.5f * (gradient[i] + 0.1f * 2), 1e-6);
  }
}

TEST_F(SliceUpdaterTest, AGroupHasARateOfItsOwn) {
  for (const double rate : {0.25, 0.0}) {
    Config config = SgdConfig(0.9);
    ParameterGroup* group = config.mutable_optimizer()->add_groups();
    group->set_match("w*");
    group->set_rate(rate);
    SliceUpdater updater(config);
    SliceState slice = Make(updater, "w"), other = Make(updater, "v");
    const auto gradient = Random(1);
    const Contribution contribution{Dense(gradient), 1, 0, {}};
    updater.Apply(slice, {&contribution, 1}, {0.5});
    updater.Apply(other, {&contribution, 1}, {0.5});
    const auto factor = static_cast<float>(0.5 * rate);
    for (uint32_t i = 0; i < kOdd; ++i) {
      ASSERT_EQ(slice.weights.read()[i], 0.0f - factor * gradient[i]);
      ASSERT_EQ(other.weights.read()[i], 0.0f - 0.5f * gradient[i]);
    }
  }
}

// adamw applies the decay here: also to a bias, if the group has one.
TEST_F(SliceUpdaterTest, AGroupHasADecoupledDecayOfItsOwn) {
  Config config;
  config.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.5);
  ParameterGroup* group = config.mutable_optimizer()->add_groups();
  group->set_match("w");
  group->set_weight_decay(0.5);
  SliceUpdater updater(config);
  SliceState slice = Make(updater, "w"), other = Make(updater, "v");
  std::ranges::fill(slice.weights.Writable(), 1.0f);
  std::ranges::fill(other.weights.Writable(), 1.0f);
  const Contribution contribution{Dense(std::vector<float>(kOdd)), 1, 0, {}};
  updater.Apply(slice, {&contribution, 1}, {0.5, 0.1});
  updater.Apply(other, {&contribution, 1}, {0.5, 0.1});
  EXPECT_FLOAT_EQ(slice.weights.read()[7], 0.75f);
  EXPECT_EQ(other.weights.read()[7], 1);  // it does not decay
}

// The average of a clock whose pushes are one update, and of pushes that are each half a clock.
TEST_F(SliceUpdaterTest, KeepsAnAverageOfTheWeights) {
  for (const bool sparse : {false, true}) {
    Config config = SgdConfig();
    config.mutable_train()->set_average(0.9);
    SliceUpdater updater(config);
    SliceState slice = Make(updater);
    ASSERT_TRUE(slice.average);
    std::vector<double> expected(kOdd);
    double updates = 0;
    for (const double clocks : {1.0, 0.5, 0.5, 1.0}) {
      const auto gradient = Random(static_cast<uint32_t>(updates) + 1);
      const Contribution contribution{sparse ? Topk(gradient, 0.01) : Dense(gradient), 1, 0, {}};
      updater.Apply(slice, {&contribution, 1}, {.learning_rate = 0.5, .clocks = clocks});
      ++updates;
      const double done = updates * clocks;  // in clocks
      const double gain = (1 - std::min(0.9, (1 + done) / (10 + done))) * clocks;
      for (uint32_t i = 0; i < kOdd; ++i) {
        expected[i] += gain * (slice.weights.read()[i] - expected[i]);
      }
    }
    for (uint32_t i = 0; i < kOdd; ++i) ASSERT_NEAR(slice.average->read()[i], expected[i], 1e-6);
  }
}

TEST_F(SliceUpdaterTest, AnAverageIsAStateOfTheSlice) {
  Config config = SgdConfig(0.9);
  config.mutable_train()->set_average(0.9);
  SliceUpdater updater(config);
  SliceState slice = Make(updater);
  const auto gradient = Random(1);
  const Contribution contribution{Dense(gradient), 1, 0, {}};
  updater.Apply(slice, {&contribution, 1}, {0.5});
  const SliceSnapshot saved = updater.Snapshot(slice);
  ASSERT_EQ(saved.states.size(), 2u);
  EXPECT_EQ(saved.states[1].first, kAverageState);

  ModelSpec model;
  model.add_parameters()->set_name("w");
  SliceSpec spec;
  spec.set_count(kOdd);
  const SliceContents contents{saved.version, saved.steps, saved.weights, saved.states, {}};
  auto restored = updater.Restore(0, spec, model, contents);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_TRUE(std::ranges::equal(restored->average->read(), slice.average->read()));
  // If the saved run had no average, the average begins as the weights. A run without an average
  // ignores a saved one.
  auto begun = updater.Restore(0, spec, model,
                               {saved.version, saved.steps, saved.weights, {saved.states[0]}, {}});
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_TRUE(std::ranges::equal(begun->average->read(), slice.weights.read()));
  SliceUpdater without(SgdConfig(0.9));
  auto plain = without.Restore(0, spec, model, contents);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_FALSE(plain->average);
}

TEST_F(SliceUpdaterTest, SeveralAreSummedInTheirOrder) {
  SliceUpdater updater(SgdConfig());
  SliceState slice = Make(updater);
  const auto a = Random(1), b = Random(2), c = Random(3);
  const Contribution contributions[] = {
      {Dense(a), 0.25f, 0, {}}, {Dense(b), 0.25f, 0, {}}, {Dense(c), 0.5f, 0, {}}};
  updater.Apply(slice, contributions, {1});
  for (uint32_t i = 0; i < kOdd; ++i) {
    const float sum = ((0.0f + 0.25f * a[i]) + 0.25f * b[i]) + 0.5f * c[i];
    ASSERT_EQ(slice.weights.read()[i], 0.0f - sum) << i;
  }
  EXPECT_EQ(slice.version, 3u);
  EXPECT_EQ(slice.steps, 1u);
}

TEST_F(SliceUpdaterTest, SparseUpdatesGiveTheBitsOfDenseOnes) {
  const auto gradient = Random(4);
  for (const float scale : {1.0f, 0.5f}) {
    SliceUpdater updater(SgdConfig());
    SliceState sparse = Make(updater), dense = Make(updater);
    PayloadReader* reader = Topk(gradient, 0.05);
    ASSERT_TRUE(reader->sparse());
    std::vector<float> values(kOdd);
    Topk(gradient, 0.05)->AddBlock(1, values);
    const Contribution one{reader, scale, 0, {}}, other{Dense(values), scale, 0, {}};
    updater.Apply(sparse, {&one, 1}, {0.5});
    updater.Apply(dense, {&other, 1}, {0.5});
    for (uint32_t i = 0; i < kOdd; ++i) {
      ASSERT_EQ(sparse.weights.read()[i], dense.weights.read()[i]) << i;
    }
    EXPECT_EQ(sparse.version, 1u);
  }
}

// Elements that are not in the gradient need no correction: sparse updates stay sparse, and can be
// pulled as sparse.
TEST_F(SliceUpdaterTest, SparseUpdatesAreCorrectedForDelayAsDenseOnes) {
  Config config = SgdConfig();
  config.mutable_consistency()->set_staleness(4);
  config.mutable_consistency()->set_compensation(ConsistencyConfig::DELAY);
  config.mutable_consistency()->set_delay_lambda(0.5);
  config.mutable_compression()->mutable_pull()->mutable_delta();
  SliceUpdater updater(config);
  SliceState sparse = Make(updater), dense = Make(updater);
  const Bytes then_sparse = sparse.weights.Share(), then_dense = dense.weights.Share();
  const auto moved = Random(5), gradient = Random(4);
  for (SliceState* slice : {&sparse, &dense}) {
    const Contribution other{Dense(moved), 1, 0, {}};
    updater.Apply(*slice, {&other, 1}, {0.5});
  }
  const std::vector<float> before(sparse.weights.read().begin(), sparse.weights.read().end());
  std::vector<float> values(kOdd);
  Topk(gradient, 0.05)->AddBlock(1, values);
  const Contribution few{Topk(gradient, 0.05), 0.5f, 1, then_sparse};
  const Contribution all{Dense(values), 0.5f, 1, then_dense};
  updater.Apply(sparse, {&few, 1}, {0.5});
  updater.Apply(dense, {&all, 1}, {0.5});
  size_t corrected = 0;
  for (uint32_t i = 0; i < kOdd; ++i) {
    ASSERT_EQ(sparse.weights.read()[i], dense.weights.read()[i]) << i;
    corrected += sparse.weights.read()[i] != before[i] - 0.25f * values[i];
  }
  EXPECT_GT(corrected, 100u) << "nothing was corrected";
  ASSERT_TRUE(sparse.changes->Since(1).has_value());
  EXPECT_EQ(sparse.changes->Since(1)->size(), 250u);
}

TEST_F(SliceUpdaterTest, WithMomentumZeroGradientsStillMoveWeights) {
  SliceUpdater updater(SgdConfig(0.5));
  SliceState slice = Make(updater, "w", 4);
  ASSERT_EQ(slice.states.size(), 1u);
  const Contribution first{Topk({8, 0, 0, 0}, 0.25), 1, 0, {}};
  updater.Apply(slice, {&first, 1}, {1});
  const Contribution second{Topk({0, 4, 0, 0}, 0.25), 1, 0, {}};
  updater.Apply(slice, {&second, 1}, {1});
  // v = 8, then 4; w = -8, then -12.
  EXPECT_EQ(slice.weights.read()[0], -12);
  EXPECT_EQ(slice.weights.read()[1], -4);
}

TEST_F(SliceUpdaterTest, ASharedSliceIsUpdatedBesideWhatWasShared) {
  SliceUpdater updater(SgdConfig(0.9));
  SliceState slice = Make(updater);
  const SliceSnapshot snapshot = updater.Snapshot(slice);
  const auto gradient = Random(5);
  for (int i = 0; i < 3; ++i) {
    const Contribution contribution{Dense(gradient), 1, 0, {}};
    updater.Apply(slice, {&contribution, 1}, {0.5});
  }
  EXPECT_EQ(snapshot.version, 0u);
  ASSERT_EQ(snapshot.states.size(), 1u);
  EXPECT_EQ(snapshot.states[0].first, "momentum_buffer");
  for (const Bytes* bytes : {&snapshot.weights, &snapshot.states[0].second}) {
    ASSERT_EQ(bytes->size(), kOdd * sizeof(float));
    for (size_t i = 0; i < bytes->size(); ++i) ASSERT_EQ(bytes->data()[i], std::byte{0});
  }
  EXPECT_NE(slice.weights.read()[7], 0);
}

TEST_F(SliceUpdaterTest, DecoupledDecayIsThatOfTheMoment) {
  Config config;
  config.mutable_optimizer()->mutable_adamw()->set_weight_decay(0.25);
  SliceUpdater updater(config);
  SliceState slice = Make(updater, "w", 4);
  slice.decays = true;
  for (float& weight : slice.weights.Writable()) weight = 1;
  const Contribution contribution{Dense({0, 0, 0, 0}), 1, 0, {}};
  updater.Apply(slice, {&contribution, 1}, {.learning_rate = 1, .weight_decay = 0.5});
  EXPECT_EQ(slice.weights.read()[0], 0.5f);
}

// Norms are of the slice, not of a block of it, and of the gradient with its decay, however it
// came.
TEST_F(SliceUpdaterTest, RatesFollowTheNormsOfTheWholeSlice) {
  const auto a = Random(1), b = Random(2), first = Random(3);
  std::vector<float> sum(kOdd);
  for (uint32_t i = 0; i < kOdd; ++i) sum[i] = 0.5f * a[i] + 0.5f * b[i];
  Config lars, lamb;
  lars.mutable_optimizer()->mutable_lars()->set_trust(1);
  lamb.mutable_optimizer()->mutable_lamb();
  for (const Config& config : {lars, lamb}) {
    for (const bool decays : {true, false}) {
      SliceUpdater updater(config);
      SliceState apart = Make(updater), together = Make(updater), summed = Make(updater);
      for (SliceState* slice : {&apart, &together, &summed}) {
        std::ranges::copy(first, slice->weights.Writable().begin());
        slice->decays = decays;
        slice->coupled_decay = slice->decays_here = decays && config.optimizer().has_lars();
      }
      const UpdateRates rates{.learning_rate = 0.5, .weight_decay = 0.125};
      const Contribution both[] = {{Dense(a), 0.5f, 0, {}}, {Dense(b), 0.5f, 0, {}}};
      updater.Apply(apart, both, rates);
      const Contribution one{Dense(sum), 1, 0, {}};
      updater.Apply(together, {&one, 1}, rates);
      Contribution halves[] = {{Dense(a), 0.5f, 0, {}}, {Dense(b), 0.5f, 0, {}}};
      std::vector<float> added;
      updater.AddUp({halves, 1}, kOdd, &added);
      updater.Apply(summed, halves, rates, added);

      std::vector<float> expected = first, gradient = sum;
      for (uint32_t i = 0; i < kOdd && apart.coupled_decay; ++i) gradient[i] += 0.125f * first[i];
      std::vector<std::vector<float>> states(2, std::vector<float>(kOdd));
      OptimizerBlock whole;
      whole.size = kOdd;
      whole.gradient = gradient.data();
      whole.weights_in = whole.weights_out = expected.data();
      for (int i = 0; i < 2; ++i) whole.state_in[i] = whole.state_out[i] = states[i].data();
      MakeOptimizer(config.optimizer())
          ->ApplyBlock({.learning_rate = 0.5,
                        .weight_decay = decays ? 0.125 : 0,
                        .step = 1,
                        .decays = decays},
                       whole);
      for (uint32_t i = 0; i < kOdd; ++i) {
        ASSERT_EQ(apart.weights.read()[i], expected[i]) << i;
        ASSERT_EQ(together.weights.read()[i], expected[i]) << i;
        ASSERT_EQ(summed.weights.read()[i], expected[i]) << i;
      }
    }
  }
}

TEST_F(SliceUpdaterTest, StatisticsAreAddedWhateverTheOptimizer) {
  Config config;
  config.mutable_optimizer()->mutable_lars();
  SliceUpdater updater(config);
  SliceState slice = Make(updater);
  slice.role = ParameterSpec::STATISTIC;
  slice.states.clear();
  const auto delta = Random(1);
  const Contribution contribution{Dense(delta), 0.5f, 0, {}};
  updater.Apply(slice, {&contribution, 1}, {0.5});
  for (uint32_t i = 0; i < kOdd; ++i) ASSERT_EQ(slice.weights.read()[i], 0.5f * delta[i]);
}

TEST_F(SliceUpdaterTest, MomentumIsDelayedByTheNumberOfWorkers) {
  Config config;
  config.mutable_cluster()->set_workers(3);
  config.mutable_optimizer()->mutable_delayed_nesterov()->set_momentum(0.5);
  SliceUpdater updater(config);
  SliceState slice = Make(updater, "w", 1);
  std::vector<float> weights;
  for (int i = 0; i < 6; ++i) {
    const Contribution contribution{Dense({1}), 1, 0, {}};
    updater.Apply(slice, {&contribution, 1}, {1});
    weights.push_back(slice.weights.read()[0]);
  }
  EXPECT_EQ(weights, (std::vector<float>{-1, -2, -4.5f, -5.5f, -6.5f, -9.75f}));
}

// What a checkpoint or a journal's image has of a slice is all that its next update needs.
TEST_F(SliceUpdaterTest, ARestoredSliceGoesOnWithTheSameBits) {
  std::vector<Config> configs(6);
  configs[0].mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  configs[1].mutable_optimizer()->mutable_adagrad();
  configs[2].mutable_optimizer()->mutable_adamw()->set_weight_decay(0.1);
  configs[3].mutable_optimizer()->mutable_delayed_nesterov()->set_spread(0.5);
  configs[4].mutable_optimizer()->mutable_lars();
  configs[5].mutable_optimizer()->mutable_lamb();
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(kOdd);
  parameter->set_decay(true);
  parameter->mutable_initializer()->mutable_normal()->set_stddev(1);
  SliceSpec spec;
  spec.set_count(kOdd);
  for (const Config& config : configs) {
    SliceUpdater updater(config);
    auto slice = updater.Make(0, spec, model, 1, nullptr);
    ASSERT_TRUE(slice.ok());
    const auto update = [&](SliceState& state, uint32_t stream) {
      const Contribution contribution{Dense(Random(stream)), 0.5f, 0, {}};
      updater.Apply(state, {&contribution, 1}, {0.125, 0.125});
    };
    for (uint32_t i = 0; i < 3; ++i) update(*slice, i);
    const SliceSnapshot saved = updater.Snapshot(*slice);
    auto restored = updater.Restore(0, spec, model,
                                    {saved.version, saved.steps, saved.weights, saved.states, {}});
    ASSERT_TRUE(restored.ok()) << restored.status();
    for (SliceState* state : {&*slice, &*restored}) {
      for (uint32_t i = 3; i < 6; ++i) update(*state, i);
    }
    for (uint32_t i = 0; i < kOdd; ++i) {
      ASSERT_EQ(restored->weights.read()[i], slice->weights.read()[i])
          << config.optimizer().ShortDebugString() << " at " << i;
    }
  }
}

TEST_F(SliceUpdaterTest, SlicesOfATensorStartAsTheWholeDoes) {
  ModelSpec model;
  ParameterSpec* parameter = model.add_parameters();
  parameter->set_name("w");
  parameter->add_shape(10);
  parameter->add_shape(7);
  parameter->mutable_initializer()->mutable_normal()->set_stddev(1);
  SliceUpdater updater(SgdConfig());
  SliceSpec spec;
  spec.set_count(70);
  const auto whole = updater.Make(0, spec, model, 3, nullptr);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->shape.tensor_rows, 10u);
  EXPECT_EQ(whole->shape.tensor_columns, 7u);
  for (const auto& [offset, count] : {std::pair(0u, 33u), std::pair(33u, 37u)}) {
    spec.set_offset(offset);
    spec.set_count(count);
    const auto part = updater.Make(1, spec, model, 3, nullptr);
    ASSERT_TRUE(part.ok());
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(part->weights.read()[i], whole->weights.read()[offset + i]);
    }
  }
}

}  // namespace
}  // namespace psgd
