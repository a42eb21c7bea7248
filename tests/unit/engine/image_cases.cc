// Windows over images, and normalization without weights.
#include "engine/ops/rules.h"
#include "tests/unit/engine/case_builder.h"

namespace psgd::testing {
namespace {

OpCase PoolCase(const char* name, Pool::Kind kind, Shape x, Window window, bool ceil = false) {
  CaseBuilder b(name, 1e-6);
  const TensorId in = b.Input(std::move(x));
  return b.Finish(AddPool(b.graph(), "pool", {kind, window, ceil}, in));
}

OpCase AdaptiveCase(const char* name, Shape x, Extent size) {
  return UnaryCase(name, std::move(x), [=](Graph* g, TensorId in) {
    return AddAdaptiveAveragePool(g, "pool", size, in);
  });
}

OpCase UpsampleCase(const char* name, Shape x, int factor) {
  return UnaryCase(name, std::move(x),
                   [=](Graph* g, TensorId in) { return AddUpsample(g, "up", {factor}, in); });
}

OpCase LocalResponseNormCase(const char* name, Shape x, const LocalResponseNorm& op) {
  return UnaryCase(
      name, std::move(x),
      [=](Graph* g, TensorId in) { return AddLocalResponseNorm(g, "lrn", op, in); }, 2e-6);
}

}  // namespace

void AddImageCases(std::vector<OpCase>* cases) {
  constexpr auto kMax = Pool::Kind::kMax, kAverage = Pool::Kind::kAverage;
  cases->push_back(PoolCase("MaxPool", kMax, {2, 3, 8, 8}, {2, 2}));
  cases->push_back(PoolCase("MaxPoolOverlappingPadded", kMax, {2, 17, 7, 5}, {3, 2, 1}));
  cases->push_back(PoolCase("MaxPoolOfOnePixel", kMax, {1, 1, 1, 1}, {1}));
  cases->push_back(PoolCase("MaxPoolVectorChannels", kMax, {2, 24, 7, 5}, {3, 2, 1}));
  cases->push_back(PoolCase("AveragePoolVectorChannels", kAverage, {2, 16, 7, 5}, {3, 2, 1}));
  cases->push_back(PoolCase("AveragePool", kAverage, {2, 3, 9, 7}, {{3, 2}, {2, 1}}));
  cases->push_back(PoolCase("AveragePoolPadded", kAverage, {1, 5, 7, 7}, {3, 2, 1}));
  cases->push_back(PoolCase("AveragePoolGlobal", kAverage, {3, 19, 5, 7}, {{5, 7}}));
  cases->push_back(PoolCase("MaxPoolCeil", kMax, {2, 3, 8, 7}, {3, 2}, true));
  cases->push_back(PoolCase("MaxPoolCeilPadded", kMax, {2, 16, 7, 10}, {3, 2, 1}, true));
  cases->push_back(PoolCase("MaxPoolCeilPartOfOne", kMax, {2, 5, 1, 2}, {{2, 3}, 2}, true));
  cases->push_back(PoolCase("MaxPoolCeilNoRoom", kMax, {1, 2, 5, 5}, {1, 2}, true));
  cases->push_back(PoolCase("AveragePoolSubsample", kAverage, {2, 16, 7, 8}, {1, 2}));
  cases->push_back(AdaptiveCase("AdaptivePool", {2, 5, 7, 10}, {3, 4}));
  cases->push_back(AdaptiveCase("AdaptivePoolEven", {2, 3, 6, 8}, {3, 2}));
  cases->push_back(AdaptiveCase("AdaptivePoolGlobal", {2, 17, 5, 7}, 1));
  cases->push_back(AdaptiveCase("AdaptivePoolLarger", {2, 3, 1, 2}, {3, 5}));
  cases->push_back(AdaptiveCase("AdaptivePoolVectorChannels", {1, 32, 9, 5}, {4, 5}));
  cases->push_back(UpsampleCase("Upsample", {2, 3, 5, 4}, 2));
  cases->push_back(UpsampleCase("UpsampleVectorChannels", {1, 16, 3, 7}, 3));
  cases->push_back(UpsampleCase("UpsampleByOne", {1, 1, 1, 1}, 1));
  cases->push_back(UpsampleCase("UpsampleByFive", {1, 2, 2, 3}, 5));
  cases->push_back(LocalResponseNormCase("LocalResponseNorm", {2, 7, 3, 5}, {.alpha = 0.5f}));
  cases->push_back(LocalResponseNormCase("LocalResponseNormOfAlexNet", {2, 16, 5, 5}, {.k = 2}));
  cases->push_back(LocalResponseNormCase("LocalResponseNormVectorChannels", {2, 32, 4, 3},
                                         {.size = 5, .alpha = 1}));
  cases->push_back(LocalResponseNormCase("LocalResponseNormOneChannel", {1, 1, 1, 1},
                                         {.size = 3, .alpha = 2, .beta = 0.5f}));
}

}  // namespace psgd::testing
