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

std::optional<Measurement> FirstMeasure(const std::optional<double>& accuracy,
                                        const std::map<std::string, double>& measures) {
  if (accuracy && *accuracy != 0) return Measurement{"accuracy", *accuracy, false};
  for (const auto& [name, smaller_is_better] : {std::pair{"rmse", true}, std::pair{"f1", false}}) {
    const auto found = measures.find(name);
    if (found != measures.end()) return Measurement{name, found->second, smaller_is_better};
  }
  return std::nullopt;
}

}  // namespace psgd
