// A network on a small problem that it can learn: each class lights up its own pixels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/philox.h"
#include "engine/runtime/network.h"
#include "proto/initialize.h"

namespace psgd::testing {

inline const NetworkOptions kReference = {.backend = "reference"};

struct Problem {
  SampleShape shape = {1, 16, 16, 4};
  int batch = 12;
  std::vector<float> images = {};
  std::vector<int32_t> labels = {};
  std::vector<int32_t> tokens = {};  // tokens of sequences, or indices of sparse vectors
  std::vector<float> values = {};    // values at the indices
  std::vector<float> targets = {};

  NetworkInput input() const { return {images, tokens, values}; }
  StepBatch step_batch() const { return {input(), labels, /*staged=*/false, targets}; }
};

inline Problem MakeProblem(const SampleShape& shape = {1, 16, 16, 4}, int batch = 12) {
  Problem problem = {.shape = shape, .batch = batch};
  RandomStream random(MakeKey(5, RandomPurpose::kSynthetic), 1);
  const int pixels = shape.channels * shape.height * shape.width;
  for (int n = 0; n < batch; ++n) {
    problem.labels.push_back(n % shape.classes);
    for (int i = 0; i < pixels; ++i) {
      problem.images.push_back(random.NextUnit() + (i % shape.classes == problem.labels.back()));
    }
  }
  return problem;
}

// Rows of numbers, and targets from 0 on that grow with some of them; label -1 of the last row.
inline Problem MakeTargetProblem(int targets, int batch = 12) {
  constexpr int kInputs = 5;
  Problem problem = MakeProblem({1, 1, kInputs, targets}, batch);
  problem.shape.targets = targets;
  problem.labels.assign(static_cast<size_t>(batch), 0);
  problem.labels.back() = -1;
  for (int n = 0; n < batch; ++n) {
    for (int t = 0; t < targets; ++t) {
      problem.targets.push_back(problem.images[static_cast<size_t>(n * kInputs + t)] > 1 ? 1 : 0);
    }
  }
  return problem;
}

// A dense network that ends with that loss.
inline ModelConfig TargetModel(ModelConfig::Loss loss) {
  ModelConfig config;
  config.set_zoo("mlp");
  config.add_hidden(16);
  config.set_loss(loss);
  return config;
}

inline constexpr ModelConfig::Loss kTargetLosses[] = {ModelConfig::SQUARED, ModelConfig::SMOOTH_L1,
                                                      ModelConfig::POISSON, ModelConfig::SIGMOID};

// Sequences in which each token is followed by the next number.
inline Problem MakeTokenProblem(int length = 7, int vocabulary = 11, int batch = 3) {
  Problem problem = {.shape = {.classes = vocabulary, .length = length, .vocabulary = vocabulary},
                     .batch = batch};
  for (int i = 0; i < batch * length; ++i) {
    problem.tokens.push_back((i / length * 5 + i % length) % vocabulary);
    problem.labels.push_back((problem.tokens.back() + 1) % vocabulary);
  }
  return problem;
}

// Pairs of sequences: 1 and the source backwards, then padding. Sources have 1 to `source` tokens.
inline Problem MakePairProblem(int source = 5, int vocabulary = 11, int batch = 4) {
  const int target = source + 1;
  Problem problem = {.shape = {.classes = vocabulary,
                               .length = source + target,
                               .source = source,
                               .vocabulary = vocabulary},
                     .batch = batch};
  for (int n = 0; n < batch; ++n) {
    const int used = 1 + (n + source - 1) % source;
    const auto token = [&](int i) { return 2 + (n * 5 + i * i) % (vocabulary - 2); };
    for (int i = 0; i < source; ++i) problem.tokens.push_back(i < used ? token(i) : 0);
    for (int i = 0; i < target; ++i) {
      problem.tokens.push_back(i == 0 ? 1 : i <= used ? token(used - i) : 0);
      problem.labels.push_back(i < used ? token(used - 1 - i) : -1);
    }
  }
  return problem;
}

// Texts whose tokens determine the class; each has 1 to `length` tokens, then padding.
inline Problem MakeTextProblem(int length = 6, int vocabulary = 11, int classes = 3,
                               int batch = 6) {
  Problem problem = {
      .shape = {.classes = classes, .length = length, .source = length, .vocabulary = vocabulary},
      .batch = batch};
  for (int n = 0; n < batch; ++n) {
    problem.labels.push_back(n % classes);
    for (int i = 0; i < length; ++i) {
      const int token = 1 + (n % classes + i * classes) % (vocabulary - 1);
      problem.tokens.push_back(i <= n % length ? token : 0);
    }
  }
  return problem;
}

// Sparse vectors: the first index determines the class; some have values 0 in their last places.
inline Problem MakeSparseProblem(int entries = 4, int vocabulary = 12, int classes = 2,
                                 int batch = 6) {
  Problem problem = {.shape = {.classes = classes, .entries = entries, .vocabulary = vocabulary},
                     .batch = batch};
  for (int n = 0; n < batch; ++n) {
    problem.labels.push_back(n % classes);
    for (int f = 0; f < entries; ++f) {
      const bool used = f == 0 || f < entries - n % 2;
      problem.tokens.push_back(!used ? 0 : f == 0 ? n % classes : (n * 5 + f * 3) % vocabulary);
      problem.values.push_back(used ? 0.5f * static_cast<float>(f + 1) : 0);
    }
  }
  return problem;
}

inline ModelConfig ZooModel(const std::string& name, float dropout = 0) {
  ModelConfig config;
  config.set_zoo(name);
  const bool has_none = name == "lenet5" || name.starts_with("resnet");
  if (!has_none) config.set_dropout(dropout);
  return config;
}

inline ModelConfig SequenceModel(const std::string& name, float dropout = 0) {
  ModelConfig config = ZooModel(name, dropout);
  config.set_width(16);
  if (name == "bag_of_tokens") return config;
  config.set_layers(2);
  if (name != "lstm_lm") config.set_heads(2);
  return config;
}

inline std::unique_ptr<Network> MakeNetwork(const ModelConfig& model, const Problem& problem,
                                            const NetworkOptions& options) {
  auto network = Network::Create(model, problem.shape, problem.batch, options);
  EXPECT_TRUE(network.ok()) << network.status();
  if (!network.ok()) return nullptr;
  for (int i = 0; i < (*network)->spec().parameters_size(); ++i) {
    FillInitial((*network)->spec().parameters(i), 1, i, 0, (*network)->parameter(i));
  }
  (*network)->InvalidateParameters();
  return *std::move(network);
}

// Makes one step of plain gradient descent and adds deltas to statistics. Returns the mean loss.
// Tests are not optimized, so the loop over up to a hundred million weights takes pointers.
inline double Descend(Network* network, const Problem& problem, uint64_t step,
                      float learning_rate) {
  const auto result = network->TrainStep(problem.step_batch(), step, nullptr);
  EXPECT_TRUE(result.ok()) << result.status();
  for (int i = 0; i < network->spec().parameters_size(); ++i) {
    const bool statistic = network->spec().parameters(i).role() == ParameterSpec::STATISTIC;
    const float factor = statistic ? 1 : -learning_rate;
    float* const parameter = network->parameter(i).data();
    const float* const gradient = network->gradient(i).data();
    const size_t size = network->parameter(i).size();
    for (size_t k = 0; k < size; ++k) parameter[k] += factor * gradient[k];
  }
  network->InvalidateParameters();
  return result->loss_sum / static_cast<double>(result->counted);
}

}  // namespace psgd::testing
