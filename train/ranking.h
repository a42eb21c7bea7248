// How well a model ranks, as recommenders are compared (He et al., "Neural collaborative
// filtering", 2017): in groups of samples, of which the first is what a user really chose.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "proto/control.pb.h"

namespace psgd {

class Ranking {
 public:
  // `group`: samples that compete; 0: there are none.
  explicit Ranking(int group) : group_(static_cast<size_t>(group)) {}

  // Scores of the samples that follow; a larger one is better. A group may come in several parts.
  void Add(std::span<const float> scores);

  // Of the whole groups: hit_ratio_10, the share of them whose first sample is among the best ten,
  // and ndcg_10, the mean of 1 / log2(1 + place) of it, zero beyond the tenth. Of equal scores the
  // first sample's is the worst: a model that tells nothing apart hits nothing.
  void Report(EvalResult* result) const;

 private:
  const size_t group_;
  std::vector<float> scores_;  // of the group under way
  size_t groups_ = 0;
  size_t hits_ = 0;
  double gain_ = 0;
};

}  // namespace psgd
