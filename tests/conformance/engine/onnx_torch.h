// Problems that tests/golden/make_onnx.py and make_corpus.py make with the same formulas, and
// networks that start with the values of an ONNX file.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/onnx/import.h"
#include "tests/unit/engine/network_fixture.h"

namespace psgd::testing {

// The numbers of fill() in make_onnx.py.
inline std::vector<float> TorchNumbers(size_t count, uint32_t state) {
  std::vector<float> numbers;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    numbers.push_back(static_cast<float>((state >> 8) / 8388608.0 - 1.0));
  }
  return numbers;
}

// Images with a label each, or with a label for each pixel.
inline Problem TorchImages(int batch, int size, int classes, bool pixels = false) {
  Problem problem = {.shape = {3, size, size, classes}, .batch = batch};
  problem.images = TorchNumbers(static_cast<size_t>(batch) * 3 * size * size, 7);
  const int labels = pixels ? batch * size * size : batch;
  for (int i = 0; i < labels; ++i) problem.labels.push_back((i * 7 + 3) % classes);
  return problem;
}

inline Problem TorchTokens(int batch, int length, int vocabulary) {
  Problem problem = {.shape = {.classes = vocabulary, .length = length, .vocabulary = vocabulary},
                     .batch = batch};
  for (float number : TorchNumbers(static_cast<size_t>(batch) * length, 11)) {
    problem.tokens.push_back(static_cast<int>((number + 1.0) / 2 * vocabulary) % vocabulary);
  }
  for (int i = 0; i < batch * length; ++i) problem.labels.push_back((i * 7 + 3) % vocabulary);
  return problem;
}

// A network whose parameters start with the values of config.onnx().
inline absl::StatusOr<std::unique_ptr<Network>> NetworkOfFile(const ModelConfig& config,
                                                              const Problem& problem,
                                                              const NetworkOptions& options) {
  PSGD_ASSIGN_OR_RETURN(auto network,
                        Network::Create(config, problem.shape, problem.batch, options));
  PSGD_ASSIGN_OR_RETURN(const auto weights, ReadOnnxWeights(config.onnx()));
  for (int i = 0; i < network->spec().parameters_size(); ++i) {
    const std::vector<float>& values = weights.at(network->spec().parameters(i).name());
    std::copy(values.begin(), values.end(), network->parameter(i).begin());
  }
  network->InvalidateParameters();
  return network;
}

}  // namespace psgd::testing
