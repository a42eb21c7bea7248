// Sequence models through the real programs: text in bytes and in byte pairs, and translation.
#include <cmath>
#include <filesystem>
#include <sstream>

#include "common/philox.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;

class Sequences : public RunTest {
 protected:
  Ended Run(const std::string& run, const std::string& config) const {
    return RunProgram({"ps-run", config, "--run-dir", Path(run), "--json", "--quiet"},
                      std::chrono::seconds(180));
  }

  // The same training by one worker, whose batches join those of both workers. In a synchronous run
  // without compression each step is the same except for rounding.
  void RunReference(const std::string& run, const std::string& config, int batch) const {
    RunOnReference(run, config, {"cluster.workers=1", "data.batch=" + std::to_string(batch)});
  }

  // The first 40 chapters of the Bible.
  std::string Bible() const {
    const Ended text = RunProgram({"/usr/bin/bible", "-f", "Gen1:1-Gen40:23"});
    EXPECT_EQ(text.code, 0) << text.err << "bible-kjv is one of scripts/packages.txt";
    return text.out;
  }

  // Lines with `shortest` to `longest` digits, and the same digits backwards.
  static std::string Reversed(int lines, uint32_t shortest, uint32_t longest) {
    RandomStream random({21, 0}, 1);
    std::string text;
    for (int i = 0; i < lines; ++i) {
      std::string digits;
      const uint32_t count = shortest + random.NextBelow(longest - shortest + 1);
      while (digits.size() < count) digits += static_cast<char>('0' + random.NextBelow(10));
      text += digits + '\t' + std::string(digits.rbegin(), digits.rend()) + '\n';
    }
    return text;
  }
};

TEST_F(Sequences, TwoWorkersLearnTheBibleAsOneReferenceDoes) {
  const std::string path = Write("bible.txt", Bible());
  struct Case {
    const char* name;
    const char* model;
    const char* tokens;
    int vocabulary;
  };
  for (const Case& test : {Case{"bytes", "gpt, heads: 2", "tokens: bytes", 256},
                           Case{"bpe", "gpt, heads: 2", "tokens: bpe, vocabulary: 384", 384},
                           Case{"lstm", "lstm_lm", "tokens: bpe, vocabulary: 384", 384}}) {
    SCOPED_TRACE(test.name);
    const std::string name = test.name;
    const std::string config = Write(name + ".yaml", R"(name: bible
model: {layers: 1, width: 32, zoo: )" + std::string(test.model) +
                                                         R"(}
data: {format: text, batch: 8, text: {length: 24}, train_samples: 960, test_samples: 96, path: )" +
                                                         path + ", " + test.tokens + R"(}
train: {epochs: 2}
optimizer: {adam: {learning_rate: 0.005}}
cluster: {shards: 2, workers: 2}
)");
    const Ended ended = Run(name, config);
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(Summary(name)["steps"], 2 * 960 / 8);
    RunReference(name + "-reference", config, 16);
    const std::vector<double> losses = Losses(name), expected = Losses(name + "-reference");
    ASSERT_EQ(losses.size(), 2u);
    ASSERT_EQ(expected.size(), 2u);
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 0.05 * expected[i]);
    EXPECT_LT(losses[0], 0.85 * std::log(test.vocabulary)) << "little better than a guess";
    EXPECT_LT(losses[1], losses[0]);
  }
}

TEST_F(Sequences, ATransformerLearnsToWriteBackwards) {
  const std::string config = Write("reverse.yaml", R"(name: reverse
model: {zoo: transformer, layers: 1, width: 64, heads: 4}
data:
  format: translation
  path: )" + Write("pairs.tsv", Reversed(4000, 3, 5)) + R"(
  translation: {source_length: 5, target_length: 6}
  batch: 16
train: {epochs: 6}
optimizer: {adam: {learning_rate: 0.003}}
schedule: {warmup: 50 steps, cosine: {floor: 0.05}}
cluster: {shards: 2, workers: 2}
)");
  const Ended ended = Run("run", config);
  ASSERT_EQ(ended.code, 0) << ended.err;
  // A guess is right one time in ten for all tokens but the ends.
  EXPECT_GT(Summary("run")["test_accuracy"].get<double>(), 0.97);
  const std::vector<Json> evaluations = Metrics("run", "evaluation");
  EXPECT_LT(evaluations.back()["loss"], evaluations.front()["loss"]);
  const double loss = evaluations.back()["loss"];
  EXPECT_NEAR(evaluations.back()["measures"]["perplexity"], std::exp(loss), 1e-6);
  // Digits and the ends, without padding: 400 lines of 4 to 6 tokens.
  EXPECT_GT(evaluations.back()["samples"], 400 * 4);
  EXPECT_LT(evaluations.back()["samples"], 400 * 6);
}

// All targets have one length, so the mean of both workers' batches is the mean over all labels.
TEST_F(Sequences, ATransformerFollowsTheReference) {
  const std::string config = Write("reverse.yaml", R"(name: reverse
model: {zoo: transformer, layers: 1, width: 16, heads: 2, label_smoothing: 0.1}
data:
  format: translation
  path: )" + Write("pairs.tsv", Reversed(1100, 4, 4)) + R"(
  tokens: bpe
  vocabulary: 262
  translation: {source_length: 6, target_length: 7}
  batch: 16
  train_samples: 960
train: {epochs: 2}
optimizer: {adam: {learning_rate: 0.003}}
cluster: {shards: 2, workers: 2}
)");
  const Ended ended = Run("run", config);
  ASSERT_EQ(ended.code, 0) << ended.err;
  RunReference("reference", config, 32);
  const std::vector<double> losses = Losses("run"), expected = Losses("reference");
  ASSERT_EQ(losses.size(), 2u);
  ASSERT_EQ(expected.size(), 2u);
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 0.02 * expected[i]);
  EXPECT_LT(losses[1], losses[0]);
}

TEST_F(Sequences, WhatDoesNotFitIsSaidBeforeTraining) {
  const std::string pairs = Write("pairs.tsv", Reversed(200, 3, 5));
  const auto error = [&](const std::string& model, const std::string& data) {
    const std::string config =
        Write("bad.yaml",
              "model: {zoo: " + model + "}\ndata: {batch: 4, path: " + pairs + ", " + data + "}\n");
    const Ended ended = RunProgram({"ps-run", config, "--run-dir", Path("bad")});
    EXPECT_EQ(ended.code, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(error("gpt", "format: translation"), HasSubstr("samples are pairs of sequences"));
  EXPECT_THAT(error("transformer", "format: text"), HasSubstr("takes pairs of sequences"));
  EXPECT_THAT(error("transformer", "format: translation, tokens: bpe, vocabulary: 100"),
              HasSubstr("must be 260 to 65536"));
  Write("pairs.tsv", "no tab\n");
  EXPECT_THAT(error("transformer", "format: translation"), HasSubstr("pairs.tsv:1"));
  EXPECT_FALSE(std::filesystem::exists(Path("bad")));
}

}  // namespace
}  // namespace psgd
