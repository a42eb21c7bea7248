// Measures how well a model ranks, in the way in which recommenders are compared (He et al.,
// "Neural collaborative filtering", 2017): in groups of samples. The first sample of a group is
// what a user really chose.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "proto/control.pb.h"

namespace psgd {

class Ranking {
 public:
  // `group`: how many samples a group has; 0: there are no groups.
  explicit Ranking(int group) : group_(static_cast<size_t>(group)) {}

  // Scores of the samples that follow; a larger one is better. A group may come in several parts.
  void Add(std::span<const float> scores);

  // Reports two measures of the whole groups. hit_ratio_10 is the share of groups whose first
  // sample is among the best ten. ndcg_10 is the mean of 1 / log2(1 + the first sample's place),
  // with zero for places beyond the tenth. Among equal scores the first sample counts as the worst,
  // so a model that gives all samples the same score has no hits.
  void Report(EvalResult* result) const;

 private:
  const size_t group_;
  std::vector<float> scores_;  // of the group under way
  size_t groups_ = 0;
  size_t hits_ = 0;
  double gain_ = 0;
};

}  // namespace psgd
