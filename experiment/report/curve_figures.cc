// Figures of the test metric and loss while a run trains, against what it spent.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/record/readable.h"
#include "experiment/report/figures.h"

namespace psgd {
namespace {

constexpr size_t kMostMeans = 100;
constexpr size_t kMostBands = 12;         // more curves than this are drawn faint, without a band
constexpr double kMarkerStep = 1.0 / 16;  // between markers, of the axis' length
constexpr double kEpochParts = 1e6;       // epochs that differ by less are the same

struct Spent {
  const char* id;
  const char* words;  // in the title
  const char* axis;
  const char* column;
  double (*of)(const CurvePoint&);
  NumberFormat format;
};

struct Gained {
  std::string id;
  std::string word;
  double (*of)(const CurvePoint&);
  std::optional<double> (*last)(const ReportRun&);  // nothing: the run does not measure it
  NumberFormat format;
  bool may_be_logarithmic;
};

struct MeanPoint {
  double epoch;
  double spent;
  Statistic gained;
};

// The mean over seeds at each evaluation that every seed reached.
std::vector<MeanPoint> MeanCurve(const ReportRuns& report, const ReportGroup& group,
                                 const Spent& spent, const Gained& gained) {
  struct Values {
    std::vector<std::pair<uint64_t, double>> spent, gained;
    std::set<uint64_t> seeds;
  };
  std::map<int64_t, Values> by_epoch;
  std::set<uint64_t> seeds;
  for (const size_t index : group.runs) {
    const ReportRun& run = report.runs[index];
    if (!IsDone(run) || !gained.last(run)) continue;
    for (const CurvePoint& point : run.data.curve) {
      // Evaluations after an early stop do not count.
      if (point.epoch > run.epochs + 1 / kEpochParts) break;
      if (!(spent.of(point) > 0) || !std::isfinite(gained.of(point))) continue;
      Values& values = by_epoch[std::llround(point.epoch * kEpochParts)];
      values.spent.emplace_back(run.seed, spent.of(point));
      values.gained.emplace_back(run.seed, gained.of(point));
      values.seeds.insert(run.seed);
      seeds.insert(run.seed);
    }
  }
  std::vector<MeanPoint> curve;
  for (const auto& [epoch, values] : by_epoch) {
    if (values.seeds.size() < seeds.size()) continue;
    curve.push_back({static_cast<double>(epoch) / kEpochParts, OverSeeds(values.spent).mean,
                     OverSeeds(values.gained)});
  }
  return curve;
}

// The area of one standard deviation around the curve.
PlotSeries Band(const std::vector<MeanPoint>& curve, const std::string& css_class) {
  PlotSeries band = {.css_class = css_class, .shape = -1, .band = true};
  for (const MeanPoint& point : curve)
    band.points.push_back({point.spent, point.gained.mean + point.gained.spread});
  for (auto point = curve.rbegin(); point != curve.rend(); ++point)
    band.points.push_back({point->spent, point->gained.mean - point->gained.spread});
  return band;
}

struct Shown {
  const ReportGroup* group;
  std::vector<MeanPoint> curve;
};

// `x` maps what was spent to 0 ... 1.
void AddCurve(const Shown& shown, bool faint, const Scale& x, const SeriesStyle& style,
              const Gained& gained, XyPlot* plot) {
  const ReportGroup& group = *shown.group;
  const std::vector<MeanPoint>& curve = shown.curve;
  const std::string color = style.ColorOf(group);
  PlotSeries line = {.css_class = color, .shape = -1, .line = true, .faint = faint};
  PlotSeries marks = {.css_class = color, .shape = style.ShapeOf(group)};
  bool spreads = false;
  double next = INFINITY;  // the place of the next marker; the last evaluation has one
  for (auto point = curve.rbegin(); point != curve.rend(); ++point) {
    const auto& [epoch, spent, value] = *point;
    line.points.push_back({spent, value.mean});
    spreads = spreads || value.spread > 0;
    if (x.At(spent) > next) continue;
    next = x.At(spent) - kMarkerStep;
    marks.points.push_back({spent, value.mean, curve.size() == 1 ? value.spread : 0,
                            absl::StrCat(group.label, ", epoch ", ReadableEpoch(epoch), ": ",
                                         gained.format(value.mean)),
                            "", false});
  }
  if (curve.size() > 1 && spreads && !faint) plot->below.push_back(Band(curve, line.css_class));
  plot->series.push_back(std::move(line));
  // Markers of hundreds of faint lines would hide the lines.
  if (curve.size() == 1 || !faint) plot->series.push_back(std::move(marks));
}

std::optional<Figure> While(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                            const SeriesStyle& style, const Spent& spent, const Gained& gained) {
  std::vector<Shown> all;
  std::vector<double> places, heights;
  std::vector<std::vector<std::string>> data{
      {"configuration", "epoch", spent.column, gained.word, "spread", "seeds"}};
  for (const ReportGroup& group : groups) {
    std::vector<MeanPoint> curve = MeanCurve(report, group, spent, gained);
    if (curve.empty()) continue;
    for (const MeanPoint& point : curve) {
      places.push_back(point.spent);
      heights.push_back(point.gained.mean);
      data.push_back({group.label, CsvNumber(point.epoch), CsvNumber(point.spent),
                      CsvNumber(point.gained.mean), CsvNumber(point.gained.spread),
                      absl::StrCat(point.gained.count)});
    }
    all.push_back({&group, std::move(curve)});
  }
  if (all.empty()) return std::nullopt;
  // Twins lie on top.
  std::stable_partition(all.begin(), all.end(), [](const Shown& one) { return !one.group->twin; });
  const bool logarithmic = SpansDecades(places);
  const Scale x(places, logarithmic, false, 0, 1);
  XyPlot plot{
      absl::StrCat("curve-", gained.id, "-", spent.id),
      absl::StrCat("Test ", gained.id, " in training, against ", spent.words),
      "",
      {spent.axis, logarithmic, false, spent.format, {}},
      {gained.word, gained.may_be_logarithmic && SpansDecades(heights), false, gained.format, {}},
      style.Legend(false),
      {}};
  size_t drawn = 0, left_out = 0, points = 0;
  for (const Shown& one : all) {
    // Twins are always shown, because others are compared with them.
    if (drawn >= kMostMeans && !one.group->twin) {
      ++left_out;
      continue;
    }
    ++drawn;
    points += one.curve.size() == 1 ? 1 : 0;
    AddCurve(one, all.size() > kMostBands && !one.group->twin, x, style, gained, &plot);
  }
  plot.description = absl::StrCat(drawn, " configurations.");
  std::string caption =
      "The mean over seeds at each evaluation on the test set; the area is their standard "
      "deviation.";
  if (all.back().group->twin) caption += " The dense synchronous twin has a color of its own.";
  if (points > 0) {
    absl::StrAppend(&caption, " ", points,
                    points == 1 ? " configuration has" : " configurations have",
                    " one evaluation and ", points == 1 ? "is a point." : "are points.");
  }
  if (left_out > 0) {
    absl::StrAppend(&caption, " ", drawn, " configurations are drawn, ", left_out,
                    " more are in the data alone.");
  }
  return Figure{plot.id, plot.title, caption, Draw(plot), std::move(data)};
}

}  // namespace

MadeFigures CurveFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                         const SeriesStyle& style, const FigureOptions&) {
  const Spent bytes{"bytes",
                    "bytes pushed and pulled",
                    "bytes pushed and pulled, headers included",
                    "bytes",
                    [](const CurvePoint& p) { return p.bytes_pushed + p.bytes_pulled; },
                    RoundBytes};
  const Spent samples{"samples",
                      "samples",
                      "samples that workers trained on",
                      "samples",
                      [](const CurvePoint& p) { return p.samples; },
                      RoundCount};
  const Gained score{
      report.metric.name,
      absl::StrCat("test ", report.metric.name),
      [](const CurvePoint& p) { return p.score.metric == nullptr ? NAN : p.score.value; },
      [](const ReportRun& run) {
        return run.score.metric == nullptr ? std::nullopt : std::optional(run.score.value);
      },
      [metric = report.metric](double value) { return metric.ShortText(value); },
      !report.metric.share};
  const Gained loss{"loss",
                    "test loss",
                    [](const CurvePoint& p) { return p.loss > 0 ? p.loss : NAN; },  // 0: none
                    [](const ReportRun& run) { return run.loss; },
                    [](double value) { return absl::StrFormat("%.3g", value); },
                    true};
  MadeFigures figures;
  for (const Spent* spent : {&bytes, &samples}) {
    for (const Gained* gained : {&score, &loss}) {
      if (auto figure = While(report, groups, style, *spent, *gained))
        figures.push_back(*std::move(figure));
    }
  }
  return figures;
}

}  // namespace psgd
