#include "experiment/report/groups.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace psgd {
namespace {

double Ratio(uint64_t dense, uint64_t sent) {
  return sent == 0 ? 0 : static_cast<double>(dense) / static_cast<double>(sent);
}

// Collects one number per run.
template <typename Number>
Statistic Over(const ReportRuns& report, const std::vector<size_t>& runs, Number number) {
  std::vector<std::pair<uint64_t, double>> values;
  for (const size_t index : runs) {
    const ReportRun& run = report.runs[index];
    if (!IsDone(run)) continue;
    const std::optional<double> value = number(run);
    if (value && std::isfinite(*value)) values.emplace_back(run.seed, *value);
  }
  return OverSeeds(values);
}

void Fill(const ReportRuns& report, ReportGroup* group) {
  const auto over = [&](auto number) { return Over(report, group->runs, number); };
  const auto of_summary = [&](auto number) {
    return over([&](const ReportRun& run) -> std::optional<double> {
      if (!run.data.summary) return std::nullopt;
      return static_cast<double>(number(*run.data.summary));
    });
  };
  const auto score_of = [](const ReportRun& run) {
    return run.score.metric == nullptr ? std::nullopt : std::optional(run.score.value);
  };
  group->score = over(score_of);
  group->loss = over([](const ReportRun& run) { return run.loss; });
  group->against_twin = over([&](const ReportRun& run) -> std::optional<double> {
    const auto own = score_of(run);
    const auto of_twin = run.twin_of ? score_of(report.runs[*run.twin_of]) : std::nullopt;
    return own && of_twin ? std::optional(*own - *of_twin) : std::nullopt;
  });
  group->epochs = over([](const ReportRun& run) { return std::optional<double>(run.epochs); });
  group->seconds = over([](const ReportRun& run) { return std::optional<double>(run.seconds); });
  group->samples_per_second = of_summary([](const Summary& s) { return s.samples_per_second; });
  group->bytes_pushed = of_summary([](const Summary& s) { return s.bytes_pushed; });
  group->bytes_pulled = of_summary([](const Summary& s) { return s.bytes_pulled; });
  group->push_ratio =
      of_summary([](const Summary& s) { return Ratio(s.bytes_pushed_dense, s.bytes_pushed); });
  group->pull_ratio =
      of_summary([](const Summary& s) { return Ratio(s.bytes_pulled_dense, s.bytes_pulled); });
  group->staleness = of_summary([](const Summary& s) { return s.staleness.mean; });
  for (const size_t index : group->runs) {
    const ReportRun& run = report.runs[index];
    if (!IsDone(run)) continue;
    ++group->done;
    if (run.data.summary)
      group->staleness_max =
          std::max(group->staleness_max, static_cast<double>(run.data.summary->staleness.max));
  }
  group->seeds = group->epochs.count;
}

}  // namespace

Statistic Statistic::Of(const std::vector<double>& values) {
  Statistic statistic;
  statistic.count = values.size();
  if (values.empty()) return statistic;
  statistic.low = *std::min_element(values.begin(), values.end());
  statistic.high = *std::max_element(values.begin(), values.end());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  statistic.mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - statistic.mean) * (value - statistic.mean);
  if (values.size() > 1)
    statistic.spread = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return statistic;
}

Statistic OverSeeds(const std::vector<std::pair<uint64_t, double>>& values) {
  std::map<uint64_t, std::vector<double>> by_seed;
  for (const auto& [seed, value] : values) by_seed[seed].push_back(value);
  std::vector<double> means;
  for (const auto& [seed, repeats] : by_seed) means.push_back(Statistic::Of(repeats).mean);
  return Statistic::Of(means);
}

bool IsDone(const ReportRun& run) {
  return run.status == ReportStatus::kFinished || run.status == ReportStatus::kStopped;
}

std::vector<ReportGroup> GroupRuns(const ReportRuns& report) {
  std::vector<ReportGroup> groups;
  std::map<std::pair<std::string, AxisValues>, size_t> index;
  for (size_t i = 0; i < report.runs.size(); ++i) {
    const ReportRun& run = report.runs[i];
    const auto [place, is_new] = index.emplace(std::pair(run.label, run.axes), groups.size());
    if (is_new) {
      ReportGroup& group = groups.emplace_back();
      group.label = run.label;
      group.axes = run.axes;
      group.twin = run.twin;
    }
    groups[place->second].runs.push_back(i);
  }
  for (ReportGroup& group : groups) Fill(report, &group);
  return groups;
}

std::string StatusText(const ReportRuns& report, const ReportGroup& group) {
  std::map<std::string, int> counts;
  for (const size_t run : group.runs) ++counts[NameOf(report.runs[run].status)];
  std::string text = absl::StrJoin(counts, ", ", [&](std::string* out, const auto& count) {
    absl::StrAppend(out, group.runs.size() > 1 ? absl::StrCat(count.second, " ") : "", count.first);
  });
  if (group.seeds < group.done)
    absl::StrAppend(&text, " (repeats of ", group.seeds, group.seeds == 1 ? " seed)" : " seeds)");
  return text;
}

}  // namespace psgd
