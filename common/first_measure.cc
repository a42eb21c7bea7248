#include "common/first_measure.h"

#include <cmath>
#include <utility>

namespace psgd {

bool Measurement::Beats(const Measurement& other, double least) const {
  if (!std::isfinite(value)) return false;
  if (name != other.name) return other.name == kLoss;
  if (!std::isfinite(other.value)) return true;
  return (smaller_is_better ? other.value - value : value - other.value) > least;
}

std::vector<Measurement> MeasurementsOf(const std::optional<double>& accuracy,
                                        const std::map<std::string, double>& measures) {
  std::vector<Measurement> all;
  if (accuracy && *accuracy != 0) all.push_back({"accuracy", *accuracy, false});
  for (const auto& [name, smaller_is_better] :
       {std::pair{"rmse", true}, std::pair{"f1", false}, std::pair{"auc", false},
        std::pair{"perplexity", true}}) {
    const auto found = measures.find(name);
    if (found != measures.end()) all.push_back({name, found->second, smaller_is_better});
  }
  return all;
}

std::optional<Measurement> FirstMeasure(const std::optional<double>& accuracy,
                                        const std::map<std::string, double>& measures) {
  const std::vector<Measurement> all = MeasurementsOf(accuracy, measures);
  return all.empty() ? std::nullopt : std::optional(all.front());
}

}  // namespace psgd
