// Dense layers whose gradients travel as their factors, both ways, and meprop.
#include <cmath>
#include <cstring>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;

// All layers but the last are wide compared to the batch.
class Factors : public RunTest {
 protected:
  Ended Train(const std::string& run, const std::vector<std::string>& sets) const {
    return RunSmall(run, Sets({"model.hidden=[160, 128]", "data.batch=8", "train.epochs=2",
                               "optimizer={sgd: {learning_rate: 0.05, weight_decay: 1e-3}}",
                               "consistency.staleness=0"}) +
                             Sets(sets));
  }
  // The values in weights.safetensors, without its header.
  std::vector<float> Numbers(const std::string& run) const {
    const std::string file = Weights(run);
    uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof(header));
    std::vector<float> numbers((file.size() - sizeof(header) - header) / sizeof(float));
    std::memcpy(numbers.data(), file.data() + sizeof(header) + header,
                numbers.size() * sizeof(float));
    return numbers;
  }
  double Number(const std::string& run, const char* key) const {
    return Summary(run)[key].get<double>();
  }
};

TEST_F(Factors, TrainAsTheGradientsDoForFewerBytes) {
  ASSERT_EQ(Train("none", {}).code, 0);
  ASSERT_EQ(Train("factors", {"compression.push=factors"}).code, 0);
  EXPECT_THAT(File("factors/worker-0/worker.log"),
              HasSubstr("pushes the gradient of fc2.weight as its factors"));
  EXPECT_EQ(Summary("factors")["rejected"], Json::object());
  EXPECT_EQ(Summary("factors")["codec"], "factors");
  EXPECT_LT(Number("factors", "bytes_pushed"), 0.4 * Number("none", "bytes_pushed"));
  const std::vector<float> expected = Numbers("none"), actual = Numbers("factors");
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_GT(actual.size(), 30000u);
  double error = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(actual[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  EXPECT_LT(std::sqrt(error / norm), 1e-3) << "more than rounding";
  EXPECT_GE(Number("factors", "test_accuracy"), 0.85);
}

TEST_F(Factors, RoundedToTwoBytesTheyTrainAsWellForHalfTheBytes) {
  const std::string half = "compression.push.factors.values=fp16";
  // All biases and the last layer's weights travel without factors.
  ASSERT_EQ(Train("whole", {"compression.push=factors", "compression.pull=delta"}).code, 0);
  ASSERT_EQ(Train("half", {half, "compression.pull=delta"}).code, 0);
  ASSERT_EQ(Train("half_whole_weights", {half}).code, 0);
  EXPECT_EQ(Summary("half")["rejected"], Json::object());
  EXPECT_LT(Number("half", "bytes_pushed"), 0.7 * Number("whole", "bytes_pushed"));
  EXPECT_LT(Number("half", "bytes_pulled"), 0.7 * Number("whole", "bytes_pulled"));
  EXPECT_GE(Number("half", "test_accuracy"), 0.85);
  EXPECT_TRUE(Weights("half") == Weights("half_whole_weights")) << "workers make other updates";
}

TEST_F(Factors, PassedOnTheyGiveTheSameBitsAsWeights) {
  for (const char* staleness : {"0", "3"}) {
    // Only one worker with staleness: with two, results would not repeat.
    const std::vector<std::string> sets = {
        "compression.push=factors", std::string("consistency.staleness=") + staleness,
        std::string("cluster.workers=") + (std::string(staleness) == "0" ? "2" : "1")};
    const std::string whole = std::string("whole") + staleness, passed = "passed" + whole;
    std::vector<std::string> delta = sets;
    delta.push_back("compression.pull=delta");
    ASSERT_EQ(Train(whole, sets).code, 0);
    ASSERT_EQ(Train(passed, delta).code, 0);
    ASSERT_FALSE(Weights(whole).empty());
    EXPECT_TRUE(Weights(whole) == Weights(passed)) << staleness;
    EXPECT_LT(Number(passed, "bytes_pulled"), 0.5 * Number(whole, "bytes_pulled"));
  }
}

TEST_F(Factors, GoWithOtherOptimizersAndShards) {
  int runs = 0;
  for (const char* set :
       {"optimizer=adam", "optimizer=adamw",
        "optimizer={sgd: {learning_rate: 0.02, momentum: 0.9}}", "cluster.shards=1",
        "cluster.transport=grpc", "consistency={staleness: 2, compensation: delay}"}) {
    SCOPED_TRACE(set);
    const std::string run = "run" + std::to_string(++runs);
    const Ended ended = Train(run, {"compression.push=factors", "compression.pull=fp16", set});
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_GE(Number(run, "test_accuracy"), 0.85);
    EXPECT_EQ(Summary(run)["rejected"], Json::object());
  }
}

TEST_F(Factors, MepropTrainsAndSendsLess) {
  // Weight decay would fill the gradients.
  const std::string plain = "optimizer={sgd: {learning_rate: 0.05}}";
  ASSERT_EQ(Train("all", {plain}).code, 0);
  ASSERT_EQ(Train("few", {plain, "model.meprop=12"}).code, 0);
  EXPECT_GE(Number("few", "test_accuracy"), Number("all", "test_accuracy") - 0.03);
  EXPECT_LT(Number("few", "bytes_pushed"), 0.8 * Number("all", "bytes_pushed"));
  ASSERT_EQ(Train("both", {plain, "model.meprop=12", "compression.push=factors"}).code, 0);
  EXPECT_GE(Number("both", "test_accuracy"), Number("all", "test_accuracy") - 0.03);
  ASSERT_EQ(Train("factors", {plain, "compression.push=factors"}).code, 0);
  EXPECT_LT(Number("both", "bytes_pushed"), 0.9 * Number("factors", "bytes_pushed"));
}

TEST_F(Factors, MepropThatWouldDoNothingIsAnError) {
  const Ended ended = Train("run", {"model.meprop=160"});
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err,
              HasSubstr("model.meprop: no dense layer of mlp has more than 160 outputs"));
}

}  // namespace
}  // namespace psgd
