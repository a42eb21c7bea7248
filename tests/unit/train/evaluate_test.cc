#include "train/evaluate.h"
#include "proto/measure_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "train/area_under_curve.h"
#include "train/ranking.h"
#include "train/target_measures.h"

namespace psgd {
namespace {

using testing::DoubleNear;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

// A group in which `better` items score above the first.
std::vector<float> Group(int size, int better) {
  std::vector<float> scores = {0.5f};
  for (int i = 1; i < size; ++i) scores.push_back(i <= better ? 0.75f : 0.25f);
  return scores;
}

EvalResult Ranked(int group, const std::vector<std::vector<float>>& parts) {
  Ranking ranking(group);
  for (const auto& part : parts) ranking.Add(part);
  EvalResult result;
  ranking.Report(&result);
  return result;
}

TEST(Ranking, CountsHitsAmongTenAndDiscountsThemByPlace) {
  // Places 1, 2, 10 and 11.
  const EvalResult result =
      Ranked(100, {Group(100, 0), Group(100, 1), Group(100, 9), Group(100, 10)});
  const double gain = 1 + 1 / std::log2(3) + 1 / std::log2(11);
  EXPECT_THAT(result.measures(),
              UnorderedElementsAre(Pair("hit_ratio_10", 0.75),
                                   Pair("ndcg_10", DoubleNear(gain / 4, 1e-12))));
}

TEST(Ranking, AModelThatTellsNothingApartHitsNothing) {
  EXPECT_EQ(Ranked(100, {std::vector<float>(100, 0.5f)}).measures().at("hit_ratio_10"), 0);
  EXPECT_EQ(Ranked(100, {std::vector<float>(100, NAN)}).measures().at("hit_ratio_10"), 0);
}

TEST(Ranking, GroupsMayComeInPartsAndUnfinishedOnesDoNotCount) {
  const std::vector<float> scores = {3, 1, 2, 1, 2, 3, 9};  // groups of three: place 1, place 3
  using Parts = std::vector<std::vector<float>>;
  for (const Parts& parts : {Parts{scores}, Parts{{3, 1}, {2, 1, 2, 3}, {9}}}) {
    EXPECT_THAT(
        Ranked(3, parts).measures(),
        UnorderedElementsAre(Pair("hit_ratio_10", 1), Pair("ndcg_10", DoubleNear(0.75, 1e-12))));
  }
  EXPECT_THAT(Ranked(3, {{1, 2}}).measures(), IsEmpty());
  EXPECT_THAT(Ranked(0, {{1, 2}}).measures(), IsEmpty());
}

// Users' choices, each followed by items that the user did not choose: features 0 to 4.
class Choices final : public Dataset {
 public:
  explicit Choices(std::vector<int32_t> items, int group)
      : items_(std::move(items)), group_(group) {}
  size_t size() const override { return items_.size(); }
  SampleShape shape() const override {
    return {.classes = 2, .entries = 1, .vocabulary = 30, .group = group_};
  }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    sample.tokens[0] = items_[key.index];
    sample.values[0] = 1;
    sample.labels[0] = group_ > 0 && key.index % static_cast<size_t>(group_) == 0 ? 1 : 0;
    return absl::OkStatus();
  }

 private:
  const std::vector<int32_t> items_;
  const int group_;
};

// A logistic regression scores feature i with i. Groups of 12: the choice has the best feature in
// the first group, is beaten by eleven others in the second, and by nine in the third.
TEST(Evaluate, RanksByTheModelsScoresOverTheBordersOfBatches) {
  std::vector<int32_t> items = {29};
  for (int i = 0; i < 11; ++i) items.push_back(i);
  items.push_back(3);
  for (int i = 10; i < 21; ++i) items.push_back(i);
  items.push_back(15);
  for (int i : {16, 17, 18, 19, 20, 21, 22, 23, 24, 1, 2}) items.push_back(i);

  const auto evaluate = [&](int batch, int group) {
    const auto set = std::make_shared<const Choices>(items, group);
    ModelConfig model;
    model.set_zoo("logistic_regression");
    auto network = Replicas::Create(model, set->shape(), batch, {{.backend = "reference"}});
    EXPECT_TRUE(network.ok()) << network.status();
    const std::span<float> weights = (*network)->parameter(0);
    EXPECT_EQ(weights.size(), 30u);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
    (*network)->InvalidateParameters();
    EvaluationBatches batches(std::make_shared<const SampleSource>(set), batch);
    const auto result = Evaluate(**network, batches, {}, ModelConfig::CROSS_ENTROPY, 1);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->samples(), 36u);
    return *result;
  };
  const double gain = 1 + 1 / std::log2(11);
  for (const int batch : {1, 5, 12, 36, 50}) {
    EXPECT_THAT(evaluate(batch, 12).measures(),
                UnorderedElementsAre(Pair("hit_ratio_10", DoubleNear(2.0 / 3, 1e-12)),
                                     Pair("ndcg_10", DoubleNear(gain / 3, 1e-12))))
        << batch;
  }
  EXPECT_THAT(evaluate(5, 0).measures(), IsEmpty());
}

EvalResult Measured(const Targets& targets, const std::vector<float>& outputs,
                    const std::vector<float>& wanted) {
  TargetMeasures measures(targets);
  const size_t half = outputs.size() / targets.names.size() / 2 * targets.names.size();
  measures.Add(std::span(outputs).first(half), std::span(wanted).first(half));
  measures.Add(std::span(outputs).subspan(half), std::span(wanted).subspan(half));
  EvalResult result;
  measures.Report(&result);
  return result;
}

TEST(TargetMeasures, OfNumbersAreInTheirOwnUnit) {
  const Targets price = {Targets::Kind::kNumber, {"price"}, {{1000, 10}}};
  // Of 990, 1000, 1010 and 1020 the outputs say 990, 1010, 1010 and 1000.
  const EvalResult result = Measured(price, {-1, 1, 1, 0}, {-1, 0, 1, 2});
  EXPECT_THAT(result.measures(),
              UnorderedElementsAre(Pair("rmse", DoubleNear(std::sqrt(500.0 / 4), 1e-9)),
                                   Pair("mae", DoubleNear(7.5, 1e-9)),
                                   Pair("r2", DoubleNear(1 - 500.0 / 500, 1e-9))));
  EXPECT_FALSE(result.has_accuracy());
}

TEST(TargetMeasures, OfSeveralNumbersAreMeansAndTheRmseOfEach) {
  const Targets two = {Targets::Kind::kNumber, {"a", "b"}, {{0, 1}, {0, 100}}};
  const EvalResult result = Measured(two, {1, 1, 3, 3}, {1, 0, 3, 2});
  EXPECT_THAT(result.measures(),
              UnorderedElementsAre(Pair("rmse", 50), Pair("mae", 50), Pair("r2", 0.5),
                                   Pair("rmse_a", 0), Pair("rmse_b", 100)));
}

TEST(TargetMeasures, OfCountsCompareTheirMean) {
  const Targets visits = {Targets::Kind::kCount, {"visits"}, {{0, 1}}};
  const auto logarithm = [](double mean) { return static_cast<float>(std::log(mean)); };
  const EvalResult result = Measured(visits, {logarithm(2), logarithm(5)}, {1, 5});
  EXPECT_THAT(result.measures().at("mae"), DoubleNear(0.5, 1e-6));
  EXPECT_THAT(result.measures().at("rmse"), DoubleNear(std::sqrt(0.5), 1e-6));
}

TEST(TargetMeasures, OfLabelsCountHitsAndErrors) {
  const Targets labels = {Targets::Kind::kLabel, {"a", "b"}, {{}, {}}};
  // Two hits, one wrong, one missed, two that are rightly left out.
  const EvalResult result = Measured(labels, {3, -1, 2, 1, -2, -3}, {1, 0, 0, 1, 1, 0});
  EXPECT_THAT(result.measures(),
              UnorderedElementsAre(Pair("f1", DoubleNear(4.0 / 6, 1e-12)),
                                   Pair("label_accuracy", DoubleNear(4.0 / 6, 1e-12)),
                                   Pair("auc", 0.75), Pair("auc_a", 0.5), Pair("auc_b", 1)));
}

TEST(TargetMeasures, NamesAreFitForKeysAndNotTooMany) {
  const Targets odd = {Targets::Kind::kNumber, {"Price (EUR)", "b"}, {{}, {}}};
  EXPECT_EQ(Measured(odd, {1, 1}, {1, 1}).measures().count("rmse_price__eur_"), 1u);
  const Targets alike = {Targets::Kind::kNumber, {"a b", "a_b", "A-B"}, {{}, {}, {}}};
  const EvalResult result = Measured(alike, {1, 2, 3}, {0, 0, 0});
  EXPECT_EQ(result.measures().at("rmse_a_b"), 1);
  EXPECT_EQ(result.measures().at("rmse_a_b_1"), 2);
  EXPECT_EQ(result.measures().at("rmse_a_b_2"), 3);
  const auto many = [](size_t targets) {
    Targets made = {Targets::Kind::kNumber, {}, std::vector<NumberScale>(targets)};
    for (size_t t = 0; t < targets; ++t) made.names.push_back("y" + std::to_string(t));
    const std::vector<float> ones(2 * targets, 1);
    return Measured(made, ones, ones).measures().size();
  };
  EXPECT_EQ(many(12), 15u);  // an evaluation has at most 16
  EXPECT_EQ(many(13), 3u);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(many(65'536), 3u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

double AreaOf(const std::vector<std::pair<float, bool>>& samples) {
  AreaUnderCurve curve;
  for (const auto& [score, is] : samples) curve.Add(score, is);
  return curve.Value().value_or(-1);
}

TEST(AreaUnderCurve, IsTheChanceToOrderAPairRightly) {
  EXPECT_EQ(AreaOf({{1, true}, {0, false}}), 1);
  EXPECT_EQ(AreaOf({{0, true}, {1, false}}), 0);
  EXPECT_EQ(AreaOf({{1, true}, {1, false}}), 0.5);
  // 3, 1, 1 and 2, 1 make six pairs: 3 wins two, two are equal, and two are lost.
  EXPECT_DOUBLE_EQ(AreaOf({{1, true}, {2, false}, {3, true}, {1, false}, {1, true}}), 3.0 / 6);
  EXPECT_EQ(AreaOf({{1, true}, {2, true}}), -1) << "one kind alone";
  EXPECT_EQ(AreaOf({}), -1);
  EXPECT_EQ(AreaOf({{NAN, true}, {1, false}}), -1);
}

TEST(TargetMeasures, OfNoSamplesAreNone) {
  EXPECT_THAT(Measured({Targets::Kind::kNumber, {"a"}, {{}}}, {}, {}).measures(), IsEmpty());
  EXPECT_THAT(Measured({.kind = Targets::Kind::kNumber, .names = {"a"}}, {}, {}).measures(),
              IsEmpty());
}

// The target of sample i is 1000 + 10 i, and its one input is i.
class Lines final : public Dataset {
 public:
  size_t size() const override { return 5; }
  SampleShape shape() const override {
    SampleShape shape{.channels = 1, .height = 1, .width = 1, .classes = 1};
    shape.targets = 1;
    return shape;
  }
  absl::Status Read(const SampleKey& key, const Sample& sample) const override {
    sample.values[0] = static_cast<float>(key.index);
    sample.labels[0] = 0;
    sample.targets[0] = static_cast<float>(key.index);
    return absl::OkStatus();
  }
};

TEST(Evaluate, MeasuresTargetsWithoutTheBatchsPadding) {
  const auto set = std::make_shared<const Lines>();
  ModelConfig model;
  model.set_zoo("mlp");
  model.add_hidden(1);
  model.set_loss(ModelConfig::SQUARED);
  for (const int batch : {1, 2, 5, 8}) {
    auto network = Replicas::Create(model, set->shape(), batch, {{.backend = "reference"}});
    ASSERT_TRUE(network.ok()) << network.status();
    for (const int weight : {0, 2}) (*network)->parameter(weight)[0] = 1;
    (*network)->parameter(3)[0] = 0.5f;  // each output is half a deviation, 5, too large
    (*network)->InvalidateParameters();
    EvaluationBatches batches(std::make_shared<const SampleSource>(set), batch);
    const auto result = Evaluate(**network, batches, {Targets::Kind::kNumber, {"y"}, {{1000, 10}}},
                                 ModelConfig::SQUARED, 1);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->samples(), 5u);
    EXPECT_FALSE(result->has_accuracy());
    EXPECT_THAT(result->loss(), DoubleNear(0.25, 1e-6)) << "in deviations";
    EXPECT_THAT(
        result->measures(),
        UnorderedElementsAre(Pair("rmse", DoubleNear(5, 1e-5)), Pair("mae", DoubleNear(5, 1e-5)),
                             Pair("r2", DoubleNear(1 - 25.0 / 200, 1e-5))))
        << batch;
    EXPECT_EQ(ResultText(*result), "loss 0.2500, mae 5.0000, r2 0.8750, rmse 5.0000");
  }
}

}  // namespace
}  // namespace psgd
