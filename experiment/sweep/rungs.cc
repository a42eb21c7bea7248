#include "experiment/sweep/rungs.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiment/record/metric.h"
#include "experiment/record/readable.h"
#include "experiment/record/run_dir.h"
#include "proto/target_kind.h"

namespace psgd {
namespace {

// The ids of runs that others are compared with.
std::set<std::string> TwinsAmong(const std::vector<PlannedRun>& runs) {
  std::set<std::string> twins;
  for (const PlannedRun& run : runs) {
    if (run.twin_id != run.id) twins.insert(run.twin_id);
  }
  return twins;
}

AtRung AtRungOf(const SweepAsha& asha, const CurvePoint& point) {
  const Score score = ScoreNamed(point.scores, MetricOf(asha));
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  return {point.epoch, score.metric == nullptr ? unknown : score.value, point.loss};
}

bool MayHaveTwoClasses(const DataConfig& data) {
  switch (data.format()) {
    case DataConfig::IDX:
    case DataConfig::CIFAR10:
    case DataConfig::CIFAR100:
    case DataConfig::SEGMENTATION:
    case DataConfig::RATINGS:  // it has measures of ranks
      return false;
    case DataConfig::SYNTHETIC:
      return data.synthetic().classes() == 2;
    default:
      return true;
  }
}

// The metrics that ps-worker may report of such data. Programs that bring their model may report
// any.
std::vector<std::string> MetricsOf(const Config& config) {
  const DataConfig& data = config.data();
  if (data.target_kind() == DataConfig::LABELS) return {"f1", "auc"};
  if (!HasClasses(data)) return {"rmse"};
  if (data.format() != DataConfig::TEXT && data.format() != DataConfig::TRANSLATION) {
    if (MayHaveTwoClasses(data)) return {"accuracy", "auc"};
    return {"accuracy"};
  }
  if (config.model().loss() != ModelConfig::CROSS_ENTROPY) return {"accuracy"};
  return {"accuracy", "perplexity"};
}

absl::Status CheckMetric(const SweepAsha& asha, const Config& config) {
  const std::string metric = MetricOf(asha);
  const std::vector<std::string> measured = MetricsOf(config);
  if (metric == "loss" || std::ranges::count(measured, metric) > 0 || config.model().has_client()) {
    return absl::OkStatus();
  }
  return InvalidArgumentError(
      "asha.metric is ", metric, ", which is not measured with data.format: ",
      absl::AsciiStrToLower(DataConfig::Format_Name(config.data().format())),
      " and model.loss: ", absl::AsciiStrToLower(ModelConfig::Loss_Name(config.model().loss())),
      "; set it to ", absl::StrJoin(measured, " or "), ", or to loss");
}

}  // namespace

absl::Status CheckAsha(const SweepAsha& asha, const std::vector<PlannedRun>& runs) {
  if (asha.rungs().empty())
    return absl::InvalidArgumentError("asha.rungs: say after which epochs, as [1, 3, 9]");
  if (!std::is_sorted(asha.rungs().begin(), asha.rungs().end(), std::less_equal<int>())) {
    return absl::InvalidArgumentError(
        "asha.rungs: each must be higher than the one before, as [1, 3, 9]");
  }
  for (const PlannedRun& run : runs) {
    PSGD_RETURN_IF_ERROR(CheckMetric(asha, run.config));
  }
  const std::set<std::string> twins = TwinsAmong(runs);
  int epochs = 0;
  for (const PlannedRun& run : runs) {
    if (twins.count(run.id) == 0) epochs = std::max(epochs, run.config.train().epochs());
  }
  const int highest = *asha.rungs().rbegin();
  if (highest < epochs || epochs == 0) return absl::OkStatus();
  return InvalidArgumentError("asha.rungs: nothing can be stopped after ", highest,
                              highest == 1 ? " epoch" : " epochs", ", for runs end after ", epochs,
                              "; leave that rung out, or give train.epochs above ", highest);
}

std::string RuleOf(const SweepAsha& asha) {
  return absl::StrCat("best 1/", asha.reduction(), " by ", MetricOf(asha), " after ",
                      absl::StrJoin(asha.rungs(), ", "), " epochs");
}

size_t ForgetStopped(const SweepAsha* asha, const SweepDir& dir,
                     const std::vector<PlannedRun>& runs) {
  const std::set<std::string> twins = TwinsAmong(runs);
  size_t forgotten = 0;
  for (const PlannedRun& run : runs) {
    const std::optional<Outcome> outcome = dir.ReadOutcome(run.id);
    if (!outcome || outcome->kind != Outcome::Kind::kStopped) continue;
    std::error_code error;
    const bool is_there = std::filesystem::exists(dir.RunPath(run.id), error);
    // Older programs did not store the rule.
    const bool same = asha != nullptr && (outcome->rule.empty() || outcome->rule == RuleOf(*asha));
    if (is_there && same && twins.count(run.id) == 0) continue;
    dir.ForgetOutcome(run.id);
    if (!is_there) dir.ForgetRungs(run.id);
    ++forgotten;
  }
  return forgotten;
}

Rungs::Rungs(const SweepAsha& asha, SweepDir dir, const std::vector<PlannedRun>& runs)
    : dir_(std::move(dir)),
      runs_(runs),
      settings_(asha),
      asha_(asha),
      rule_(RuleOf(asha)),
      twins_(TwinsAmong(runs_)) {}

void Rungs::Recall() {
  for (const PlannedRun& run : runs_) {
    if (IsTwin(run.id)) continue;
    std::vector<AtRung>& reached = reached_[run.id] = dir_.ReadRungs(run.id);
    for (const AtRung& at : reached) (void)asha_.GoesOn(run.id, at);
    const std::optional<Outcome> outcome = dir_.ReadOutcome(run.id);
    if (!outcome || outcome->kind == Outcome::Kind::kFailed) continue;
    // This run is decided, but others are compared with it at every current rung.
    MetricsFollower metrics(RunDir(dir_.RunPath(run.id)).MetricsFile());
    metrics.Look();
    for (const CurvePoint& point : metrics.curve()) {
      // Evaluations after the decision depend on timing, so they do not count.
      if (outcome->kind == Outcome::Kind::kStopped &&
          point.epoch > outcome->epoch + kEpochTolerance)
        break;
      (void)asha_.GoesOn(run.id, AtRungOf(settings_, point));
    }
  }
}

absl::Status Rungs::CheckMeasured(const PlannedRun& run, const MetricsFollower& metrics,
                                  bool ended) const {
  const std::vector<CurvePoint>& curve = metrics.curve();
  const bool told =
      !curve.empty() && curve.back().epoch > *settings_.rungs().begin() - kEpochTolerance;
  if (!run.config.model().has_client() || (!ended && !told)) return absl::OkStatus();
  const std::string metric = MetricOf(settings_);
  if (metrics.measured().contains(metric)) return absl::OkStatus();
  const std::string log = absl::StrCat("log ", metric, " in the program, as run.log(", metric,
                                       "=...) of psgd.torch after each epoch");
  if (metrics.measured().empty()) {
    return InvalidArgumentError("asha.metric is ", metric, ", and the program of ",
                                run.LabelWithSeed(), " logged nothing; ", log);
  }
  return InvalidArgumentError(
      "asha.metric is ", metric, ", and the program of ", run.LabelWithSeed(), " logged ",
      absl::StrJoin(metrics.measured(), ", "), "; ", log,
      ", or set asha.metric to what it logs (loss, accuracy, rmse, f1, auc or "
      "perplexity)");
}

bool Rungs::GoesOn(const PlannedRun& run, const std::vector<CurvePoint>& curve) {
  if (IsTwin(run.id)) return true;
  for (const CurvePoint& point : curve) {
    const AtRung at = AtRungOf(settings_, point);
    if (!asha_.Decides(run.id, at)) continue;
    const bool at_its_end = at.epoch > run.config.train().epochs() - kEpochTolerance;
    if (asha_.GoesOn(run.id, at) || at_its_end) {
      std::vector<AtRung>& reached = reached_[run.id];
      reached.push_back(at);
      (void)dir_.WriteRungs(run.id, reached);  // if lost, the next ps-sweep decides again
      continue;
    }
    const Outcome outcome{
        Outcome::Kind::kStopped,
        absl::StrFormat("not among the best after %s epochs", ReadableEpoch(point.epoch)),
        point.epoch, rule_};
    return !dir_.WriteOutcome(run.id, outcome).ok();
  }
  return true;
}

}  // namespace psgd
