// Sparse models with the real programs: logistic regression against liblinear, and a recommender.
#include <cmath>
#include <sstream>

#include "common/philox.h"
#include "data/safetensors.h"
#include "data/sparse_table.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

constexpr int kFeatures = 60;
constexpr int kTrain = 800;

// Clicks whose odds are a sparse linear function of the features.
std::string Libsvm(int rows, uint64_t stream) {
  RandomStream random({17, 0}, stream);
  std::ostringstream text;
  for (int row = 0; row < rows; ++row) {
    std::ostringstream entries;
    double score = 0.3;
    for (int f = 0; f < kFeatures; ++f) {
      if (random.NextBelow(6) != 0) continue;
      const double value = std::round(400 * random.NextUnit() - 200) / 100;
      score += value * std::sin(f * f);
      entries << ' ' << f + 1 << ':' << value;
    }
    const bool click = random.NextUnit() < 1 / (1 + std::exp(-score));
    text << (click ? "+1" : "-1") << entries.str() << '\n';
  }
  return text.str();
}

struct Linear {
  std::vector<double> weights;  // the last is the bias
  double ScoreOf(const SparseRow& row) const {
    double score = weights.back();
    for (const SparseEntry& entry : row.entries) score += weights[entry.index] * entry.value;
    return score;
  }
};

std::vector<SparseRow> Rows(const std::string& text) {
  std::vector<SparseRow> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(ParseLibsvm(line, &rows.emplace_back()).ok());
  }
  return rows;
}

// liblinear's objective for -s 0 -B 1 -c 1.
double Objective(const Linear& model, const std::vector<SparseRow>& rows) {
  double sum = 0;
  for (double w : model.weights) sum += w * w / 2;
  for (const SparseRow& row : rows) sum += std::log1p(std::exp(-row.label * model.ScoreOf(row)));
  return sum;
}

double Accuracy(const Linear& model, const std::vector<SparseRow>& rows) {
  int right = 0;
  for (const SparseRow& row : rows) right += row.label * model.ScoreOf(row) > 0;
  return static_cast<double>(right) / static_cast<double>(rows.size());
}

class Sparse : public RunTest {
 protected:
  Linear Liblinear(const std::string& train) {
    const Ended ended = RunProgram({"/usr/bin/liblinear-train", "-s", "0", "-B", "1", "-c", "1",
                                    "-e", "1e-8", train, Path("model")});
    EXPECT_EQ(ended.code, 0) << ended.err << "liblinear-tools is one of scripts/packages.txt";
    std::istringstream file(File("model"));
    std::string word;
    double sign = 1;
    while (file >> word && word != "w") {
      if (word == "label" && file >> word) sign = word == "1" ? 1 : -1;
    }
    Linear model;
    for (double weight; file >> weight;) model.weights.push_back(sign * weight);
    return model;
  }
  Linear Exported(const std::string& run) {
    const auto file = SafetensorsFile::Read(Path(run) + "/weights.safetensors");
    EXPECT_TRUE(file.ok()) << file.status();
    Linear model;
    for (const char* name : {"linear.weight", "linear.bias"}) {
      const auto values = file->Find(name)->values;
      model.weights.insert(model.weights.end(), values.begin(), values.end());
    }
    return model;
  }
};

TEST_F(Sparse, LogisticRegressionFindsLiblinearsOptimum) {
  const std::string train = Libsvm(kTrain, 1), test = Libsvm(2000, 2);
  Write("clicks.t", test);
  const std::string config = Write("clicks.yaml", R"(name: clicks
model: {zoo: logistic_regression}
data: {format: libsvm, path: )" + Write("clicks", train) +
                                                      R"(, batch: 20}
train: {epochs: 60}
optimizer: {sgd: {learning_rate: 0.5, momentum: 0.9, weight_decay: 0.00125}}
schedule: {cosine: {}}
compression: {push: none}
cluster: {shards: 2, workers: 2}
)");
  const Ended ended = RunProgram({"ps-run", config, "--run-dir", Path("run")});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Linear best = Liblinear(Path("clicks")), found = Exported("run");
  ASSERT_EQ(found.weights.size(), best.weights.size());
  const double optimum = Objective(best, Rows(train));
  EXPECT_LE(Objective(found, Rows(train)), 1.001 * optimum);
  EXPECT_GE(Objective(found, Rows(train)), optimum * (1 - 1e-6)) << "not liblinear's objective";
  EXPECT_NEAR(Accuracy(found, Rows(test)), Accuracy(best, Rows(test)), 0.001);
  EXPECT_NEAR(Summary("run")["test_accuracy"].get<double>(), Accuracy(found, Rows(test)), 1e-9);
}

// People of two tastes choose from two kinds of things. A batch reads only a small part of the
// table.
class Tastes : public Sparse {
 protected:
  std::string Config() const {
    RandomStream random({18, 0}, 1);
    std::ostringstream ratings;
    for (int user = 0; user < 400; ++user) {
      for (int i = 0; i < 12; ++i) {
        ratings << user << "::" << 2 * random.NextBelow(100) + user % 2 << "::5::" << i << '\n';
      }
    }
    return Write("taste.yaml", R"(name: taste
model: {zoo: ncf, width: 8, hidden: [32, 16]}
data: {format: ratings, path: )" + Write("ratings.dat", ratings.str()) +
                                   R"(, batch: 64, ratings: {test_negatives: 4}}
train: {epochs: 3}
optimizer: {adam: {learning_rate: 0.003}}
consistency: {staleness: 2}
cluster: {shards: 2, workers: 2}
)");
  }
};

TEST_F(Tastes, ARecommenderLearnsThemAndPushesOnlyTheRowsItTouched) {
  const Ended ended = RunProgram({"ps-run", Config(), "--run-dir", Path("run")});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::vector<double> losses = Losses("run");
  ASSERT_EQ(losses.size(), 3u);
  // A model that only knows that one of five is chosen has loss 0.50. With the tastes it has 0.38.
  EXPECT_LT(losses.back(), 0.44);
  const Json summary = Summary("run");
  EXPECT_LT(2 * summary["bytes_pushed"].get<double>(), summary["bytes_pushed_dense"].get<double>());
}

TEST_F(Tastes, ARecommenderFollowsTheReference) {
  const std::vector<std::string> settings = {"consistency.staleness=0", "train.epochs=2"};
  const std::string config = Config();
  const Ended ended = RunProgram(
      std::vector<std::string>{"ps-run", config, "--run-dir", Path("run")} + Sets(settings));
  ASSERT_EQ(ended.code, 0) << ended.err;
  RunOnReference("reference", config, settings, 2);
  const std::vector<double> losses = Losses("run"), expected = Losses("reference");
  ASSERT_EQ(losses.size(), 2u);
  ASSERT_EQ(expected.size(), 2u);
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 0.01 * expected[i]);
  EXPECT_LT(losses[1], losses[0]);
}

// Ten kinds of people choose all things of their kind, in random orders. The thing left out for the
// test is the only one of a hundred that fits the user.
TEST_F(Sparse, ARecommenderIsEvaluatedByItsRanks) {
  constexpr int kKinds = 10, kThings = 12;
  std::ostringstream ratings;
  for (int user = 0; user < 200; ++user) {
    for (int i = 0; i < kThings; ++i) {
      const int thing = user % kKinds * kThings + (i + user / kKinds) % kThings;
      ratings << user << ',' << thing << ",5," << i << '\n';
    }
  }
  const std::string config = Write("kinds.yaml", R"(name: kinds
model: {zoo: ncf, width: 8, hidden: [32, 16]}
data: {format: ratings, path: )" + Write("ratings.csv", ratings.str()) +
                                                     R"(, batch: 64}
train: {epochs: 8}
optimizer: {adam: {learning_rate: 0.01}}
cluster: {shards: 2, workers: 2}
)");
  const Ended ended = RunProgram({"ps-run", config, "--run-dir", Path("run")});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, testing::HasSubstr(", hit_ratio_10 "));
  EXPECT_THAT(ended.out, testing::HasSubstr("test ndcg_10"));
  const Json measures = Summary("run")["test_measures"];
  EXPECT_GE(measures["hit_ratio_10"].get<double>(), 0.95) << "chance has 0.1";
  EXPECT_GE(measures["ndcg_10"].get<double>(), 0.8);
  EXPECT_LE(measures["ndcg_10"], measures["hit_ratio_10"]);
  const Json last = Metrics("run", "evaluation").back();
  EXPECT_EQ(last["measures"], measures);
  EXPECT_EQ(last["samples"], 200 * 100);
  const Ended status = RunProgram({"ps-ctl", "status", Path("run"), "--json"});
  EXPECT_EQ(Json::parse(status.out)["evaluations"].back()["measures"], measures);
  const Ended again = RunProgram({"ps-ctl", "eval", "--run-dir", Path("run"), "--json"});
  EXPECT_NEAR(Json::parse(again.out)["test_measures"]["hit_ratio_10"].get<double>(),
              measures["hit_ratio_10"].get<double>(), 0.02)
      << "batches of another size round otherwise";
}

TEST_F(Sparse, ModelAndDataThatDoNotFitAreErrors) {
  const std::string data = Write("clicks", Libsvm(100, 1));
  const auto error = [&](const std::string& model, const std::string& more) {
    const std::string config =
        Write("bad.yaml", "model: {zoo: " + model + "}\ndata: {batch: 10, " + more + "}\n");
    const Ended ended = RunProgram({"ps-run", config, "--run-dir", Path("bad")});
    EXPECT_EQ(ended.code, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(error("lenet5", "format: libsvm, path: " + data),
              testing::HasSubstr("takes images, but samples are sparse vectors"));
  EXPECT_THAT(error("ncf", "format: libsvm, path: " + data),
              testing::HasSubstr("pairs of a user and an item"));
  EXPECT_THAT(error("logistic_regression", "format: libsvm, path: " + Write("odd", "1 a:b\n")),
              testing::HasSubstr("odd:1: \"a:b\" is no index:value"));
  EXPECT_THAT(error("logistic_regression", "format: criteo"),
              testing::HasSubstr("data.path is missing"));
}

}  // namespace
}  // namespace psgd
