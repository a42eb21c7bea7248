#include "train/ranking.h"

#include <algorithm>
#include <cmath>

namespace psgd {
namespace {

constexpr ptrdiff_t kBest = 10;

}  // namespace

void Ranking::Add(std::span<const float> scores) {
  if (group_ == 0) return;
  for (const float score : scores) {
    scores_.push_back(score);
    if (scores_.size() < group_) continue;
    const float chosen = scores_.front();
    // Where a score is no number, the first sample loses.
    const ptrdiff_t place = 1 + std::count_if(scores_.begin() + 1, scores_.end(),
                                              [&](float other) { return !(other < chosen); });
    ++groups_;
    if (place <= kBest) {
      ++hits_;
      gain_ += 1 / std::log2(1 + static_cast<double>(place));
    }
    scores_.clear();
  }
}

void Ranking::Report(EvalResult* result) const {
  if (groups_ == 0) return;
  const auto groups = static_cast<double>(groups_);
  (*result->mutable_measures())["hit_ratio_10"] = static_cast<double>(hits_) / groups;
  (*result->mutable_measures())["ndcg_10"] = gain_ / groups;
}

}  // namespace psgd
