#include "common/first_measure.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace psgd {

namespace {

struct Known {
  const char* name;
  bool smaller_is_better;
};
constexpr Known kKnown[] = {
    {"accuracy", false}, {"rmse", true}, {"f1", false}, {"auc", false}, {"perplexity", true}};

}  // namespace

bool IsBetterSmaller(absl::string_view name) {
  return std::ranges::any_of(
      kKnown, [&](const Known& known) { return known.smaller_is_better && name == known.name; });
}

std::string ReadableMeasure(double value) {
  const double size = std::abs(value);
  return size == 0 || (size >= 0.01 && size < 100) ? absl::StrFormat("%.4f", value)
                                                   : absl::StrFormat("%.5g", value);
}

std::string ReadableLoss(double loss) {
  return std::abs(loss) < 1e6 ? absl::StrFormat("%.4f", loss) : absl::StrFormat("%.4g", loss);
}

bool Measurement::Beats(const Measurement& other, double least) const {
  if (!std::isfinite(value)) return false;
  if (name != other.name) return other.name == kLoss;
  if (!std::isfinite(other.value)) return true;
  return (smaller_is_better ? other.value - value : value - other.value) > least;
}

std::vector<Measurement> MeasurementsOf(const std::optional<double>& accuracy,
                                        const std::map<std::string, double>& measures) {
  std::vector<Measurement> all;
  for (const auto& [name, smaller_is_better] : kKnown) {
    const auto found = measures.find(name);
    std::optional<double> value;
    if (found != measures.end()) value = found->second;
    if (name == kKnown[0].name) value = accuracy && *accuracy != 0 ? accuracy : std::nullopt;
    if (value) all.push_back({name, *value, smaller_is_better});
  }
  return all;
}

std::optional<Measurement> FirstMeasure(const std::optional<double>& accuracy,
                                        const std::map<std::string, double>& measures) {
  const std::vector<Measurement> all = MeasurementsOf(accuracy, measures);
  return all.empty() ? std::nullopt : std::optional(all.front());
}

}  // namespace psgd
