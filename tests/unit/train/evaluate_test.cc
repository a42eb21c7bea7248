#include "train/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "train/ranking.h"

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
    auto network =
        Replicas::Create(model, InputShapeOf(set->shape()), batch, {{.backend = "reference"}});
    EXPECT_TRUE(network.ok()) << network.status();
    const std::span<float> weights = (*network)->parameter(0);
    EXPECT_EQ(weights.size(), 30u);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
    (*network)->InvalidateParameters();
    EvaluationBatches batches(std::make_shared<const SampleSource>(set), batch);
    const auto result = Evaluate(**network, batches, 1);
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

}  // namespace
}  // namespace psgd
