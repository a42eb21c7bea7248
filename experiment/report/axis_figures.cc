// Figures of how a numeric key affects the metric and throughput.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "experiment/record/readable.h"
#include "experiment/report/figures.h"

namespace psgd {
namespace {

constexpr size_t kMostAxes = 4;

// A value that is a number or contains exactly one: "topk density 0.01", "100mbit".
struct NumberAndRest {
  double number = 0;
  std::string rest;  // the words around it
};
std::optional<NumberAndRest> NumberOf(const std::string& value) {
  const std::vector<std::string> words = absl::StrSplit(value, ' ');
  std::optional<NumberAndRest> found;
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = absl::StripSuffix(words[i], ",");
    double scale = 1;
    for (const auto& [unit, factor] :
         {std::pair<absl::string_view, double>{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}) {
      if (absl::EndsWith(word, unit)) {
        word.remove_suffix(unit.size());
        scale = factor;
      }
    }
    double number = 0;
    if (!absl::SimpleAtod(word, &number) || !std::isfinite(number)) continue;
    if (found) return std::nullopt;
    std::vector<std::string> rest = words;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(i));
    found = NumberAndRest{number * scale, absl::StrJoin(rest, " ")};
  }
  return found;
}

std::string Short(double value) {
  return std::abs(value) >= 1e4 ? ReadableCount(value) : absl::StrFormat("%.4g", value);
}

struct AxisPoint {
  double at;
  const ReportGroup* group;
};
// Points by the values of the other axes.
using Curves = std::map<std::string, std::vector<AxisPoint>>;

Curves CurvesAlong(const std::vector<ReportGroup>& groups, const std::string& axis,
                   std::set<double>* numbers) {
  Curves curves;
  for (const ReportGroup& group : groups) {
    if (group.score.count == 0) continue;
    AxisValues others;
    std::optional<NumberAndRest> found;
    for (const auto& [key, value] : group.axes) {
      if (key != axis) {
        others.emplace_back(key, value);
        continue;
      }
      found = NumberOf(value);
      if (found && !found->rest.empty()) others.emplace_back("way", found->rest);
    }
    if (!found) continue;
    numbers->insert(found->number);
    const std::string name = group.twin ? "dense, synchronous" : AxesLabel(others);
    curves[name].push_back({found->number, &group});
  }
  // Two points make no curve. Without a curve of three points there is no figure.
  if (std::ranges::none_of(curves, [](const auto& curve) { return curve.second.size() > 2; })) {
    numbers->clear();
  }
  for (auto& [name, points] : curves) {
    std::ranges::sort(points, {}, &AxisPoint::at);
  }
  return curves;
}

// `metric`: null: the throughput.
Figure Along(const std::string& axis, const Curves& curves, const std::set<double>& numbers,
             const Metric* metric) {
  const std::string key = ShortKey(axis);
  const std::vector<double> ticks(numbers.begin(), numbers.end());
  const bool logarithmic = SpansDecades(ticks);
  const bool scores = metric != nullptr;
  const auto text_of = [=](double value) {
    return scores ? metric->Text(value) : ReadableCount(value) + " samples/s";
  };
  const NumberFormat format = [=](double value) {
    return scores ? metric->ShortText(value) : ReadableCount(value);
  };
  XyPlot plot{
      absl::StrCat(scores ? metric->name : "throughput", "-", key),
      absl::StrCat(scores ? metric->title : "Throughput", " over ", key),
      "",
      {axis, logarithmic, false, Short, ticks.size() <= 12 ? ticks : std::vector<double>()},
      {scores ? absl::StrCat("test ", metric->name) : "samples/s", false, !scores, format, {}},
      {},
      {}};
  std::vector<std::vector<std::string>> data{
      {"configuration", axis, scores ? metric->name : "samples_per_second", "spread"}};
  const bool lines = curves.size() <= 16;
  int color = 0;
  for (const auto& [name, points] : curves) {
    PlotSeries series;
    const bool twin = points.front().group->twin;
    series.name = curves.size() > 1 ? (name.empty() ? "others" : name) : "";
    series.css_class = twin ? "ink" : lines ? absl::StrCat("c", color % kSeriesColors) : "c0";
    series.shape = twin ? static_cast<int>(Svg::kStar) : lines ? color % Svg::kShapes : 0;
    series.line = lines && points.size() > 1;
    if (!twin) ++color;
    for (const AxisPoint& point : points) {
      const Statistic& statistic = scores ? point.group->score : point.group->samples_per_second;
      series.points.push_back({point.at, statistic.mean, statistic.spread,
                               absl::StrCat(point.group->label, ": ", text_of(statistic.mean)), "",
                               false});
      data.push_back({point.group->label, CsvNumber(point.at), CsvNumber(statistic.mean),
                      CsvNumber(statistic.spread)});
    }
    if (!lines) series.name.clear();
    plot.series.push_back(std::move(series));
  }
  plot.description =
      absl::StrCat(curves.size(), " curves over ", numbers.size(), " values of ", axis, ".");
  return {plot.id, plot.title,
          "Means over seeds, with their standard deviation; a line joins what differs in this key "
          "alone.",
          Draw(plot), std::move(data)};
}

}  // namespace

MadeFigures AxisFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                        const SeriesStyle&, const FigureOptions&) {
  std::vector<std::string> axes;
  for (const ReportGroup& group : groups) {
    for (const auto& [axis, value] : group.axes) {
      // Workers and shards have their own figures.
      if (axis == "cluster.workers" || axis == "cluster.shards") continue;
      if (std::count(axes.begin(), axes.end(), axis) == 0) axes.push_back(axis);
    }
  }
  MadeFigures figures;
  std::vector<std::string> left_out;
  for (const std::string& axis : axes) {
    std::set<double> numbers;
    const Curves curves = CurvesAlong(groups, axis, &numbers);
    if (numbers.size() < 3) continue;
    if (figures.size() >= 2 * kMostAxes) {
      left_out.push_back(axis);
      continue;
    }
    figures.push_back(Along(axis, curves, numbers, &report.metric));
    figures.push_back(Along(axis, curves, numbers, nullptr));
  }
  if (!left_out.empty()) {
    absl::StrAppend(&figures.back().caption, " Not drawn over: ", absl::StrJoin(left_out, ", "),
                    ".");
  }
  return figures;
}

}  // namespace psgd
