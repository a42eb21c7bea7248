// The networks, batches, initial weights and stored numbers of tests/golden/make_networks.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/sample_shape.h"
#include "engine/runtime/network.h"
#include "proto/config.pb.h"
#include "proto/model.pb.h"
#include "tests/conformance/engine/golden_numbers.h"
#include "tests/folders.h"

namespace psgd::testing {

using Json = nlohmann::ordered_json;

struct GoldenProblem {
  static constexpr uint64_t kInput = 1 << 20, kLabels = 1 << 21, kProbe = 1 << 22,
                            kValues = 3 << 21, kLogits = 1 << 23;
  static constexpr float kRate = 0.001f;  // learning rate of the step before the evaluation

  // `small`: images are small enough for plain loops.
  explicit GoldenProblem(const std::string& model, bool small = false)
      : golden(small ? All().at("small").at(model) : All().at(model)) {
    config.set_zoo(model);
    for (const char* of_tokens :
         {"gpt", "lstm_lm", "transformer", "bag_of_tokens", "transformer_encoder"}) {
      if (model == of_tokens) config.set_width(16);
    }
    if (model == "gpt") config.set_heads(2);
    if (model == "ncf") config.set_width(8);
    batch = golden["batch"];
    shape.classes = golden["classes"];
    shape.length = golden["length"];
    shape.source = golden["source"];
    shape.entries = golden["entries"];
    shape.vocabulary = golden["vocabulary"];
    if (!golden["image"].is_null()) {
      shape.channels = golden["image"][0];
      shape.height = golden["image"][1];
      shape.width = golden["image"][2];
    }
    for (const auto& [name, numbers] : All().at(model)["gradients"].items()) {
      streams.emplace(name, streams.size());
    }
    FillBatch(model == "unet");
  }

  // Initial values. Weights are pseudo-random, matrices around zero, vectors around their constant
  // initializer, and rounded to float. Statistics have their constant initializer.
  template <typename T>
  void FillFirstValues(const ParameterSpec& spec, std::span<T> values) const {
    const double center = spec.initializer().constant().value();
    if (spec.role() != ParameterSpec::TRAINED) {
      std::fill(values.begin(), values.end(), static_cast<T>(center));
      return;
    }
    const uint64_t stream = streams.at(spec.name());
    if (spec.shape_size() > 1) {
      const auto spread = static_cast<float>(
          std::sqrt(6.0 * static_cast<double>(spec.shape(0)) / static_cast<double>(values.size())));
      FillRandom(stream, spread, 0, values);
    } else {
      FillRandom(stream, 0.1, center, values);
    }
  }
  std::vector<double> FirstValues(const ParameterSpec& spec) const {
    size_t size = 1;
    for (int64_t extent : spec.shape()) size *= static_cast<size_t>(extent);
    std::vector<double> values(size);
    FillFirstValues(spec, std::span(values));
    return values;
  }

  const Json& golden;
  ModelConfig config;
  SampleShape shape;
  int batch = 0;
  std::map<std::string, uint64_t> streams;  // by parameter: the stream of its initial values
  std::vector<float> image, values;
  std::vector<int32_t> tokens, labels;

 private:
  static const Json& All() {
    static const Json all = Json::parse(std::ifstream(GoldenFile("networks.json")));
    return all;
  }

  void FillBatch(bool pixels) {
    const auto draw = [](uint64_t from, size_t i, int below) {
      return static_cast<int32_t>(Unit(from, i) * below);
    };
    image.resize(size_t{1} * batch * shape.channels * shape.height * shape.width);
    for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(Unit(kInput, i));
    values.resize(size_t{1} * batch * shape.entries);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(Unit(kValues, i));
    tokens.resize(size_t{1} * batch * (shape.length + shape.entries));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = draw(kInput, i, shape.vocabulary);
    for (int n = 0; n < batch; ++n) {
      for (int i = 0; i < shape.source; ++i) {
        int32_t& token = tokens[n * shape.length + i];
        token = i < 1 + n % shape.source ? 1 + token % (shape.classes - 1) : 0;
      }
    }
    const int places = shape.IsSequence() ? shape.labels()
                       : pixels           ? shape.height * shape.width
                                          : 1;
    labels.resize(size_t{1} * batch * places);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = draw(kLabels, i, shape.classes);
  }
};

// `bound` is relative to the length. `rounding` is added, for lengths that are only rounding.
inline void ExpectKept(const Json& golden, const Kept& kept, double bound, double rounding,
                       const std::string& name) {
  const double length = golden[0], product = golden[1];
  EXPECT_NEAR(kept.length, length, bound * length + rounding) << name;
  EXPECT_NEAR(kept.product, product, bound * length + rounding) << name;
}

// `bound` is relative to the length.
inline void ExpectLogits(const Json& golden, const std::vector<double>& logits, double bound) {
  const double length = golden["logits"][0];
  for (int i = 0; i < 2; ++i) {
    const Kept kept = KeptOf(logits, GoldenProblem::kLogits + i);
    EXPECT_NEAR(kept.length, length, bound * length);
    EXPECT_NEAR(kept.product, golden["logits"][1 + i].get<double>(), bound * length);
  }
}

}  // namespace psgd::testing
