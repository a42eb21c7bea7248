#include "experiment/sweep/asha.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace psgd {

namespace {

constexpr double kTolerance = 1e-6;  // of an epoch's number

}  // namespace

double Asha::Score(double accuracy, double loss) const {
  const double score = asha_.metric() == SweepAsha::LOSS ? -loss : accuracy;
  return std::isfinite(score) ? score : -std::numeric_limits<double>::infinity();
}

bool Asha::GoesOn(const std::string& run, double epoch, double accuracy, double loss) {
  const auto rung = std::find_if(asha_.rungs().begin(), asha_.rungs().end(),
                                 [&](int at) { return std::abs(at - epoch) < kTolerance; });
  if (rung == asha_.rungs().end()) return true;
  auto& scores = scores_[*rung];
  const auto [mine, is_new] = scores.emplace(run, Score(accuracy, loss));
  if (!is_new) return true;
  const size_t kept = scores.size() / static_cast<size_t>(asha_.reduction());
  const auto better = std::count_if(scores.begin(), scores.end(),
                                    [&](const auto& other) { return other.second > mine->second; });
  // Until there are so many that one of them is the best part, nobody can be told to be worse.
  return kept == 0 || static_cast<size_t>(better) < kept;
}

}  // namespace psgd
