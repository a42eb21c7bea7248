// Figures of the metric against bytes and time.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "experiment/record/readable.h"
#include "experiment/report/figures.h"

namespace psgd {
namespace {

constexpr size_t kMostCurves = 400;
constexpr size_t kMostBars = 40;
constexpr double kBelowTwin = 0.005;  // a target of a share lies this much below the twin's
constexpr double kAboveTwin = 1.01;   // a target of another metric is that of the twin times this

NumberFormat ShortTextOf(const Metric& metric) {
  return [metric](double value) { return metric.ShortText(value); };
}

// One point per group: its `cost` in bytes and its score, with the Pareto front.
std::optional<Figure> AgainstBytes(const Metric& metric, const std::vector<ReportGroup>& groups,
                                   const SeriesStyle& style, const std::string& id,
                                   const std::string& title, const std::string& what,
                                   double (*cost)(const ReportGroup&)) {
  std::vector<const ReportGroup*> shown;
  std::vector<std::pair<double, double>> points;
  for (const ReportGroup& group : groups) {
    if (group.score.count == 0 || !(cost(group) > 0)) continue;
    shown.push_back(&group);
    points.emplace_back(cost(group), group.score.mean);
  }
  if (shown.empty()) return std::nullopt;
  std::vector<std::pair<double, double>> gains = points;
  if (metric.smaller_is_better) {
    for (auto& [bytes, gain] : gains) gain = -gain;
  }
  const std::vector<size_t> front = ParetoFront(gains);
  XyPlot plot{id,
              title,
              "",
              {what, true, false, RoundBytes, {}},
              {absl::StrCat("test ", metric.name), false, false, ShortTextOf(metric), {}},
              style.Legend(false),
              {}};
  std::vector<std::vector<std::string>> data{
      {"configuration", "bytes", metric.name, "spread", "seeds", "pareto"}};
  for (size_t i = 0; i < shown.size(); ++i) {
    const ReportGroup& group = *shown[i];
    const bool best = std::count(front.begin(), front.end(), i) > 0;
    PlotSeries series = {.css_class = style.ColorOf(group), .shape = style.ShapeOf(group)};
    PlotPoint point{
        points[i].first, points[i].second, group.score.spread, "", best ? group.label : "", best};
    point.tip = absl::StrCat(group.label, ": ", metric.Text(group.score.mean), " with ",
                             HumanBytes(points[i].first));
    series.points.push_back(std::move(point));
    plot.series.push_back(std::move(series));
    data.push_back({group.label, CsvNumber(points[i].first), CsvNumber(group.score.mean),
                    CsvNumber(group.score.spread), absl::StrCat(group.score.count),
                    best ? "yes" : "no"});
  }
  PlotSeries line = {.name = "Pareto front", .css_class = "front", .shape = -1, .line = true};
  for (const size_t index : front)
    line.points.push_back({points[index].first, points[index].second});
  plot.below.push_back(std::move(line));
  plot.description =
      absl::StrCat(shown.size(), " configurations; ", front.size(),
                   " of them are on the Pareto front. The table below the figure has the numbers.");
  return Figure{id, title,
                absl::StrCat("Each point is a configuration, the mean of its seeds with their "
                             "standard deviation. ",
                             metric.smaller_is_better ? "Down" : "Up",
                             " and to the left is better. Ringed points are on the Pareto front: "
                             "none sends less and is better. The star is the dense synchronous "
                             "twin."),
                Draw(plot), std::move(data)};
}

std::optional<Figure> AgainstTime(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                                  const SeriesStyle& style) {
  const Metric& metric = report.metric;
  XyPlot plot{absl::StrCat(metric.name, "-time"),
              absl::StrCat(metric.title, " against wall time"),
              "",
              {"time since the run began", false, true, ReadableTime, {}},
              {absl::StrCat("test ", metric.name), false, false, ShortTextOf(metric), {}},
              style.Legend(true),
              {}};
  std::vector<std::vector<std::string>> data{{"configuration", "seed", "seconds", "epoch",
                                              metric.name, "loss", "bytes_pushed", "bytes_pulled"}};
  size_t curves = 0, left_out = 0;
  for (const bool twins : {false, true}) {  // curves of twins lie on top
    for (const ReportGroup& group : groups) {
      if (group.twin != twins) continue;
      for (const size_t index : group.runs) {
        const ReportRun& run = report.runs[index];
        if (run.data.curve.empty() || run.score.metric == nullptr) continue;
        for (const CurvePoint& point : run.data.curve) {
          data.push_back({run.label, absl::StrCat(run.seed), CsvNumber(point.seconds),
                          CsvNumber(point.epoch), CsvNumber(point.score.value),
                          CsvNumber(point.loss), CsvNumber(point.bytes_pushed),
                          CsvNumber(point.bytes_pulled)});
        }
        // Twins are always shown, because others are compared with them.
        if (!twins && curves >= kMostCurves) {
          ++left_out;
          continue;
        }
        ++curves;
        PlotSeries series = {.css_class = style.ColorOf(group),
                             .shape = run.data.curve.size() == 1 ? 0 : -1,
                             .line = true,
                             .faint = !twins && groups.size() > 12};
        for (const CurvePoint& point : run.data.curve) {
          series.points.push_back({point.seconds, point.score.value, 0,
                                   absl::StrCat(run.label, ", seed ", run.seed), "", false});
        }
        plot.series.push_back(std::move(series));
      }
    }
  }
  if (curves == 0) return std::nullopt;
  plot.description = absl::StrCat(curves, " runs, a line each.");
  std::string caption =
      "A line for each run, a corner for each evaluation on the test set. Runs that shared the "
      "machine with others took longer than they would have alone.";
  if (left_out > 0) {
    absl::StrAppend(&caption, " The twins and the first ", kMostCurves, " other runs are drawn, ",
                    left_out, " more are in the data alone.");
  }
  return Figure{plot.id, plot.title, caption, Draw(plot), std::move(data)};
}

// The time when the curve, interpolated between evaluations, reaches the target; negative: never.
// What grows begins at 0, and before the first evaluation nothing is known of what shrinks.
double SecondsTo(const Metric& metric, double target, const std::vector<CurvePoint>& curve) {
  double before_seconds = 0;
  std::optional<double> before;
  if (!metric.smaller_is_better) before = 0;
  for (const CurvePoint& point : curve) {
    const double value = point.score.value;
    if (metric.Reaches(value, target)) {
      if (!before) return point.seconds;
      const double share = value != *before ? (target - *before) / (value - *before) : 1;
      return before_seconds + share * (point.seconds - before_seconds);
    }
    before_seconds = point.seconds;
    before = value;
  }
  return -1;
}

// A target that is easy to read, and that `value` reaches.
double Rounded(const Metric& metric, double value) {
  if (metric.share) return std::floor(value * 1000) / 1000;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return metric.smaller_is_better ? std::ceil(value / unit) * unit
                                  : std::floor(value / unit) * unit;
}

// Half a percentage point below the twin, or a hundredth above it where small values are better: a
// target that most groups should reach. Without a twin, the score that half of the groups reach.
double TargetOf(const Metric& metric, const std::vector<ReportGroup>& groups) {
  std::vector<double> reached;
  for (const ReportGroup& group : groups) {
    if (group.score.count == 0) continue;
    if (group.twin) {
      const double twin = group.score.mean;
      return Rounded(metric, metric.share ? twin - kBelowTwin : twin * kAboveTwin);
    }
    reached.push_back(group.score.mean);
  }
  if (reached.empty()) return -1;
  std::nth_element(reached.begin(), reached.begin() + static_cast<ptrdiff_t>(reached.size() / 2),
                   reached.end());
  return Rounded(metric, reached[reached.size() / 2]);
}

std::optional<Figure> TimeToTarget(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                                   const SeriesStyle& style, const FigureOptions& options) {
  const Metric& metric = report.metric;
  const double target = options.target.value_or(TargetOf(metric, groups));
  if (!(target > 0)) return std::nullopt;
  struct Reached {
    const ReportGroup* group;
    Statistic seconds;
    size_t tried;
  };
  std::vector<Reached> all;
  std::vector<std::vector<std::string>> data{
      {"configuration", metric.name, "seconds", "spread", "reached", "seeds"}};
  for (const ReportGroup& group : groups) {
    std::vector<std::pair<uint64_t, double>> seconds;
    std::set<uint64_t> tried;
    for (const size_t index : group.runs) {
      const ReportRun& run = report.runs[index];
      if (run.data.curve.empty() || run.score.metric == nullptr) continue;
      tried.insert(run.seed);
      const double at = SecondsTo(metric, target, run.data.curve);
      if (at >= 0) seconds.emplace_back(run.seed, at);
    }
    if (!tried.empty()) all.push_back({&group, OverSeeds(seconds), tried.size()});
  }
  if (all.empty()) return std::nullopt;
  std::stable_sort(all.begin(), all.end(), [](const Reached& a, const Reached& b) {
    if (a.seconds.count == 0 || b.seconds.count == 0) return a.seconds.count > b.seconds.count;
    return a.seconds.mean < b.seconds.mean;
  });
  const std::string title =
      metric.share ? absl::StrCat("Time to ", ShortPercent(target), " ", metric.name)
                   : absl::StrCat("Time to ", metric.title, " ", metric.ShortText(target));
  BarPlot plot{absl::StrCat("time-to-", metric.name), title, "", "time", ReadableTime, {}, {}};
  for (const Reached& one : all) {
    data.push_back({one.group->label, CsvNumber(target),
                    one.seconds.count > 0 ? CsvNumber(one.seconds.mean) : "",
                    CsvNumber(one.seconds.spread), absl::StrCat(one.seconds.count),
                    absl::StrCat(one.tried)});
    // If there are too many groups, shows the fastest and always the twin.
    if (plot.bars.size() >= kMostBars && !one.group->twin) continue;
    Bar bar;
    bar.label = one.group->twin ? one.group->label + " *" : one.group->label;
    bar.strong = one.group->twin;
    if (one.seconds.count > 0) {
      bar.parts.push_back({one.seconds.mean, style.ColorOf(*one.group),
                           absl::StrCat(one.group->label, ": ", ReadableTime(one.seconds.mean))});
      bar.text = ReadableTime(one.seconds.mean);
      if (one.seconds.count < one.tried) {
        absl::StrAppend(&bar.text, " (", one.seconds.count, " of ", one.tried, ")");
      }
    } else {
      bar.text = "not reached";
    }
    plot.bars.push_back(std::move(bar));
  }
  plot.description =
      absl::StrCat(all.size(), " configurations; the fastest is ", all.front().group->label, ".");
  std::string caption =
      "Mean over the seeds that reached it, between evaluations along a straight line; * is the "
      "twin.";
  if (all.size() > plot.bars.size()) {
    absl::StrAppend(&caption, " The ", plot.bars.size(), " fastest of ", all.size(),
                    " are drawn; the data has all.");
  }
  return Figure{plot.id, title, caption, Draw(plot), std::move(data)};
}

double Pushed(const ReportGroup& group) { return group.bytes_pushed.mean; }
double Moved(const ReportGroup& group) { return group.bytes_pushed.mean + group.bytes_pulled.mean; }

}  // namespace

MadeFigures MetricFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                          const SeriesStyle& style, const FigureOptions& options) {
  const Metric& metric = report.metric;
  const std::string name = metric.name, title = metric.title;
  MadeFigures figures;
  const auto add = [&](std::optional<Figure> figure) {
    if (figure) figures.push_back(*std::move(figure));
  };
  add(AgainstBytes(metric, groups, style, name + "-bytes", title + " against bytes pushed",
                   "bytes that workers pushed, headers included", Pushed));
  add(AgainstBytes(metric, groups, style, name + "-bytes-total",
                   title + " against bytes pushed and pulled",
                   "bytes pushed and pulled, headers included", Moved));
  add(AgainstTime(report, groups, style));
  add(TimeToTarget(report, groups, style, options));
  return figures;
}

}  // namespace psgd
