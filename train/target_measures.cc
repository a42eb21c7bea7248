#include "train/target_measures.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

constexpr size_t kLongestTargetName = 32;  // names of measures are keys in many places

// One name for each target, if they are few. A name that is taken gets the target's number.
std::vector<std::string> NamesOf(const std::vector<std::string>& targets) {
  std::vector<std::string> names;
  if (targets.size() > kMostNamedTargets) return names;
  for (size_t t = 0; t < targets.size(); ++t) {
    std::string name = absl::AsciiStrToLower(targets[t].substr(0, kLongestTargetName));
    for (char& c : name) {
      if (!absl::ascii_isalnum(static_cast<uint8_t>(c))) c = '_';
    }
    while (std::ranges::find(names, name) != names.end()) absl::StrAppend(&name, "_", t);
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

TargetMeasures::TargetMeasures(const Targets& targets)
    : targets_(targets), names_(NamesOf(targets.names)), sums_(targets.names.size()) {}

void TargetMeasures::Add(std::span<const float> outputs, std::span<const float> targets) {
  const size_t each = sums_.size();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (targets_.kind == Targets::Kind::kLabel) {
      AddLabel(outputs[i], targets[i] > 0.5f, i % each);
    } else {
      AddNumber(outputs[i], targets[i], i % each);
    }
  }
  if (each > 0) samples_ += static_cast<double>(outputs.size() / each);
}

void TargetMeasures::AddNumber(double output, double target, size_t t) {
  if (targets_.kind == Targets::Kind::kCount) output = std::exp(output);
  const double error = (output - target) * targets_.scales[t].deviation;
  const double value = target * targets_.scales[t].deviation;
  Sums& sums = sums_[t];
  sums.squared_error += error * error;
  sums.error += std::abs(error);
  sums.value += value;
  sums.square += value * value;
}

void TargetMeasures::AddLabel(float output, bool is, size_t t) {
  const bool found = output > 0;
  // A curve keeps a number for each sample.
  if (sums_.size() <= kMostCurves) sums_[t].curve.Add(output, is);
  sums_[t].hits += found && is;
  sums_[t].wrong += found && !is;
  sums_[t].missed += !found && is;
}

void TargetMeasures::Report(EvalResult* result) const {
  if (samples_ == 0 || sums_.empty()) return;
  if (targets_.kind == Targets::Kind::kLabel) {
    ReportLabels(result);
  } else {
    ReportNumbers(result);
  }
}

bool TargetMeasures::names_targets() const {
  return sums_.size() > 1 && sums_.size() <= kMostNamedTargets;
}

void TargetMeasures::ReportNumbers(EvalResult* result) const {
  auto& measures = *result->mutable_measures();
  double rmse = 0, mae = 0, r2 = 0;
  for (size_t t = 0; t < sums_.size(); ++t) {
    const Sums& sums = sums_[t];
    const double own = std::sqrt(sums.squared_error / samples_);
    const double varies = sums.square - sums.value * sums.value / samples_;
    rmse += own;
    mae += sums.error / samples_;
    r2 += varies > 0 ? 1 - sums.squared_error / varies : 0;
    if (names_targets()) measures["rmse_" + names_[t]] = own;
  }
  const auto count = static_cast<double>(sums_.size());
  measures["rmse"] = rmse / count;
  measures["mae"] = mae / count;
  measures["r2"] = r2 / count;
}

void TargetMeasures::ReportLabels(EvalResult* result) const {
  double hits = 0, errors = 0;
  for (const Sums& sums : sums_) {
    hits += static_cast<double>(sums.hits);
    errors += static_cast<double>(sums.wrong + sums.missed);
  }
  auto& measures = *result->mutable_measures();
  measures["f1"] = hits + errors > 0 ? 2 * hits / (2 * hits + errors) : 1;
  double areas = 0, measured = 0;
  for (size_t t = 0; t < sums_.size(); ++t) {
    const std::optional<double> area = sums_[t].curve.Value();
    if (!area) continue;
    areas += *area;
    measured += 1;
    if (names_targets()) measures["auc_" + names_[t]] = *area;
  }
  if (measured > 0) measures["auc"] = areas / measured;
  measures["label_accuracy"] = 1 - errors / (samples_ * static_cast<double>(sums_.size()));
}

}  // namespace psgd
