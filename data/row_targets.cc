#include "data/row_targets.h"

#include <algorithm>
#include <utility>

namespace psgd {
Targets::Kind KindOf(DataConfig::TargetKind kind) {
  switch (kind) {
    case DataConfig::NUMBER:
      return Targets::Kind::kNumber;
    case DataConfig::COUNT:
      return Targets::Kind::kCount;
    case DataConfig::LABELS:
      return Targets::Kind::kLabel;
    default:
      return Targets::Kind::kNone;
  }
}

absl::Status CheckTarget(Targets::Kind kind, double value) {
  if (kind == Targets::Kind::kCount && value < 0) {
    return InvalidArgumentError(value,
                                " is below 0, which no count is; to predict any number, set "
                                "model.loss to squared or smooth_l1");
  }
  if (kind == Targets::Kind::kLabel && value != 0 && value != 1) {
    return InvalidArgumentError(value,
                                " is neither 0 nor 1, as labels are (model.loss: sigmoid); to "
                                "predict a number, set model.loss to squared or smooth_l1");
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> TrainingRows(const std::string& path, size_t rows, double test_fraction) {
  const auto training = static_cast<size_t>(static_cast<double>(rows) * (1 - test_fraction));
  if (training > 0 && training < rows) return training;
  return InvalidArgumentError(path, ": ", rows, " samples are too few to keep ", test_fraction,
                              " of them for the test; name a test file in data.table.test");
}

void RowTargets::Read(size_t row, const Sample& sample) const {
  sample.labels[0] = labels.empty() ? 0 : labels[row];
  const size_t each = sample.targets.size();
  std::copy_n(values.begin() + static_cast<ptrdiff_t>(row * each), each, sample.targets.begin());
}

RowTargets RealTargets(Targets::Kind kind, std::vector<std::string> names,
                       const std::vector<double>& values, size_t training) {
  const size_t each = names.size();
  RowTargets rows;
  rows.classes = static_cast<int>(each);
  rows.targets = {kind, std::move(names), std::vector<NumberScale>(each)};
  for (size_t t = 0; kind == Targets::Kind::kNumber && t < each; ++t) {
    const auto scale = MeasureScale(training, [&](size_t row) { return values[row * each + t]; });
    rows.targets.scales[t] = scale.value_or(NumberScale());
  }
  rows.values.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    rows.values.push_back(rows.targets.scales[i % each].Of(values[i]));
  }
  return rows;
}

}  // namespace psgd
