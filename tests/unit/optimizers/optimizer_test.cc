#include "optimizers/optimizer.h"

#include <gtest/gtest.h>

#include <hwy/highway.h>
#include <cmath>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/philox.h"
#include "tests/unit/optimizers/reference_optimizers.h"

namespace psgd {
namespace {

std::vector<float> Random(uint64_t stream, size_t size, float low, float high) {
  RandomStream random(MakeKey(7, RandomPurpose::kSynthetic), stream);
  std::vector<float> values(size);
  for (float& value : values) value = low + (high - low) * random.NextUnit();
  return values;
}

struct Case {
  std::string name;
  OptimizerConfig config;
};

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"sgd", {}},   {"momentum", {}},         {"nesterov", {}}, {"adagrad", {}}, {"adam", {}},
      {"adamw", {}}, {"delayed_nesterov", {}}, {"lars", {}},     {"lamb", {}},    {"muon", {}}};
  cases[0].config.mutable_sgd();
  cases[1].config.mutable_sgd()->set_momentum(0.9);
  cases[2].config.mutable_sgd()->set_momentum(0.9);
  cases[2].config.mutable_sgd()->set_nesterov(true);
  cases[3].config.mutable_adagrad()->set_epsilon(1e-6);
  AdamConfig adam;
  adam.set_beta2(0.99);
  adam.set_epsilon(1e-6);
  *cases[4].config.mutable_adam() = adam;
  *cases[5].config.mutable_adamw() = adam;
  cases[6].config.mutable_delayed_nesterov()->set_momentum(0.5);
  cases[6].config.mutable_delayed_nesterov()->set_every(2);
  cases[6].config.mutable_delayed_nesterov()->set_spread(0.5);
  cases[7].config.mutable_lars()->set_trust(0.5);
  cases[8].config.mutable_lamb()->set_beta2(0.99);
  cases[9].config.mutable_muon()->set_epsilon(1e-6);
  return cases;
}

struct Arrays {
  std::vector<float> weights;
  std::vector<std::vector<float>> states;
};

// Makes `steps` updates; with `out_of_place` every other step is out of place.
Arrays Train(const Optimizer& optimizer, size_t size, int steps, bool out_of_place) {
  Arrays arrays{Random(1, size, -1, 1), {}};
  arrays.states.assign(optimizer.state_arrays(), std::vector<float>(size));
  for (int t = 1; t <= steps; ++t) {
    const std::vector<float> gradient = Random(100 + t, size, -0.5, 0.5);
    Arrays fresh{std::vector<float>(size, NAN), {}};
    fresh.states.assign(arrays.states.size(), std::vector<float>(size, NAN));
    const bool apart = out_of_place && t % 2 == 0;
    Arrays& out = apart ? fresh : arrays;
    OptimizerBlock block;
    block.size = size;
    block.gradient = gradient.data();
    block.weights_in = arrays.weights.data();
    block.weights_out = out.weights.data();
    for (size_t i = 0; i < arrays.states.size(); ++i) {
      block.state_in[i] = arrays.states[i].data();
      block.state_out[i] = out.states[i].data();
    }
    OptimizerStep step{
        .learning_rate = 0.05, .weight_decay = 0.1, .step = static_cast<uint64_t>(t)};
    optimizer.ApplyBlock(step, block);
    if (apart) arrays = std::move(fresh);
  }
  return arrays;
}

TEST(OptimizerTest, FollowsTheFormulasInDouble) {
  constexpr int kSteps = 12;
  for (const Case& c : Cases()) {
    const auto optimizer = MakeOptimizer(c.config);
    EXPECT_EQ(std::string(optimizer->name()), c.name);
    for (size_t size : {1, 7, 16, 1003}) {
      const Arrays got = Train(*optimizer, size, kSteps, false);
      std::vector<ReferenceElement> expected(size);
      const std::vector<float> start = Random(1, size, -1, 1);
      for (size_t i = 0; i < size; ++i) expected[i].weight = start[i];
      for (uint64_t t = 1; t <= kSteps; ++t) {
        const std::vector<float> gradient = Random(100 + t, size, -0.5, 0.5);
        const OptimizerStep step{.learning_rate = 0.05, .weight_decay = 0.1, .step = t};
        ReferenceUpdate(c.config, step, gradient, expected);
      }
      for (size_t i = 0; i < size; ++i) {
        ASSERT_NEAR(got.weights[i], expected[i].weight, 4e-6)
            << c.name << ", " << size << " elements, at " << i;
        for (size_t s = 0; s < got.states.size(); ++s) {
          ASSERT_NEAR(got.states[s][i], expected[i].state[s], 2e-6) << c.name << " state " << s;
        }
      }
    }
  }
}

TEST(OptimizerTest, OutOfPlaceGivesTheSameBits) {
  for (const Case& c : Cases()) {
    const auto optimizer = MakeOptimizer(c.config);
    const Arrays a = Train(*optimizer, 517, 6, false);
    const Arrays b = Train(*optimizer, 517, 6, true);
    EXPECT_EQ(a.weights, b.weights) << c.name;
    EXPECT_EQ(a.states, b.states) << c.name;
  }
}

uint64_t Fingerprint(const Arrays& arrays) {
  Checksum checksum;
  checksum.Add(AsBytes(arrays.weights));
  for (const auto& state : arrays.states) checksum.Add(AsBytes(state));
  return checksum.Value();
}

TEST(OptimizerTest, EveryInstructionSetGivesTheSameBits) {
  const auto cases = Cases();
  std::vector<uint64_t> expected;
  int targets = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (size_t i = 0; i < cases.size(); ++i) {
      const uint64_t got = Fingerprint(Train(*MakeOptimizer(cases[i].config), 1003, 5, false));
      if (targets == 0) {
        expected.push_back(got);
      } else {
        EXPECT_EQ(got, expected[i]) << cases[i].name << " on " << hwy::TargetName(target);
      }
    }
    ++targets;
  }
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_GE(targets, 2) << "nothing was compared";
}

TEST(OptimizerTest, NamesItsStatesAsPersisted) {
  std::vector<std::vector<std::string>> names;
  for (const Case& c : Cases()) {
    const auto optimizer = MakeOptimizer(c.config);
    names.emplace_back();
    for (int i = 0; i < optimizer->state_arrays(); ++i) {
      names.back().emplace_back(optimizer->state_name(i));
    }
  }
  const std::vector<std::vector<std::string>> expected = {{},
                                                          {"momentum_buffer"},
                                                          {"momentum_buffer"},
                                                          {"sum"},
                                                          {"exp_avg", "exp_avg_sq"},
                                                          {"exp_avg", "exp_avg_sq"},
                                                          {"momentum_buffer", "gradient_sum"},
                                                          {"velocity"},
                                                          {"exp_avg", "exp_avg_sq"},
                                                          {"exp_avg", "exp_avg_sq"}};
  EXPECT_EQ(names, expected);
}

// Two steps from w = 1 with gradients 0.5 and -0.25, learning rate 0.1, weight decay 0.1, worked
// out by hand with the definitions of PyTorch and of the papers.
TEST(OptimizerTest, MatchesWorkedExamples) {
  const std::vector<double> expected = {
      0.975,                            // 1 - 0.05 + 0.025
      0.93,                             // v: 0.5, 0.2
      0.912,                            // 1 - 0.095 + 0.007
      0.9 + 0.025 / std::sqrt(0.3125),  // sums: 0.25, 0.3125
      0.9 - 0.1 * (0.02 / 0.19) / std::sqrt(0.0031 / 0.0199),
      0.89 * 0.99 - 0.1 * (0.02 / 0.19) / std::sqrt(0.0031 / 0.0199),
      0.95 - 0.1 * (0.75 * 0.5 * 0.25 - 0.25),  // m: 0, 0.25; a: 0.25, 0.75
      0.95 - (0.9 * 0.05 - 0.1 * 1.9 * 0.25),   // ratios: 1, 1.9
      0.9 - 0.1 * 0.9,                          // |w| / |r| * r is w's size
      0.89 * 0.99 - 0.1 * (0.02 / 0.19) / std::sqrt(0.00031225 / 0.001999),  // adamw's
  };
  const auto cases = Cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto optimizer = MakeOptimizer(cases[i].config);
    float weight = 1, states[kMaxStateArrays] = {0, 0};
    uint64_t t = 0;
    for (const float gradient : {0.5f, -0.25f}) {
      OptimizerBlock block;
      block.size = 1;
      block.gradient = &gradient;
      block.weights_in = block.weights_out = &weight;
      for (int s = 0; s < kMaxStateArrays; ++s) {
        block.state_in[s] = block.state_out[s] = &states[s];
      }
      optimizer->ApplyBlock({.learning_rate = 0.1, .weight_decay = 0.1, .step = ++t}, block);
    }
    EXPECT_NEAR(weight, expected[i], 2e-6) << cases[i].name;
  }
}

TEST(OptimizerTest, AnUnsetConfigIsPlainSgd) {
  EXPECT_EQ(std::string(MakeOptimizer({})->name()), "sgd");
}

TEST(OptimizerTest, CompensatesDelay) {
  const auto now = Random(1, 37, -1, 1), then = Random(2, 37, -1, 1), g = Random(3, 37, -2, 2);
  auto compensated = g;
  CompensateDelay(0.5f, now, then, compensated);
  for (size_t i = 0; i < g.size(); ++i) {
    const double expected = g[i] + 0.5 * g[i] * g[i] * (double{now[i]} - then[i]);
    ASSERT_NEAR(compensated[i], expected, 1e-6);
  }
  auto unmoved = g;
  CompensateDelay(0.5f, now, now, unmoved);
  EXPECT_EQ(unmoved, g) << "without delay nothing changes";
}

TEST(OptimizerTest, AddsDeltasToStatistics) {
  const auto delta = Random(1, 21, -1, 1), in = Random(2, 21, -1, 1);
  std::vector<float> out(21), in_place = in;
  AddDelta(delta, in.data(), out.data());
  AddDelta(delta, in_place.data(), in_place.data());
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], in[i] + delta[i]);
  EXPECT_EQ(in_place, out);
}

// Devices have the formulas again, for one element.
TEST(OptimizerTest, ADevicesUpdateHasTheHostsBits) {
  constexpr size_t kSize = 67;
  int compared = 0;
  for (const Case& c : Cases()) {
    const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(c.config);
    if (!optimizer->ElementUpdateAt({}).has_value()) continue;
    SCOPED_TRACE(c.name);
    ++compared;
    const int steps = 5;
    const Arrays wanted = Train(*optimizer, kSize, steps, /*out_of_place=*/false);
    Arrays made{Random(1, kSize, -1, 1), {}};
    made.states.assign(kMaxStateArrays, std::vector<float>(kSize));
    for (int t = 1; t <= steps; ++t) {
      const std::vector<float> gradient = Random(100 + t, kSize, -0.5, 0.5);
      const ElementUpdate update = *optimizer->ElementUpdateAt(
          {.learning_rate = 0.05, .weight_decay = 0.1, .step = static_cast<uint64_t>(t)});
      for (size_t i = 0; i < kSize; ++i) {
        update.Apply(gradient[i], &made.weights[i], &made.states[0][i], &made.states[1][i]);
      }
    }
    EXPECT_EQ(made.weights, wanted.weights);
    for (size_t s = 0; s < wanted.states.size(); ++s) EXPECT_EQ(made.states[s], wanted.states[s]);
  }
  EXPECT_EQ(compared, 7);
}

}  // namespace
}  // namespace psgd
