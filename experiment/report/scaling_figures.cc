// Figures of throughput against the number of workers or shards.
#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/record/readable.h"
#include "experiment/report/figures.h"

namespace psgd {
namespace {

struct Measured {
  double count = 0;  // of workers or shards
  Statistic rate;
  const ReportGroup* group = nullptr;
};

using CountOf = double (*)(const ReportGroup&, const ReportRuns&);

const Config* ConfigOf(const ReportGroup& group, const ReportRuns& report) {
  for (const size_t run : group.runs) {
    if (report.runs[run].data.config) return &*report.runs[run].data.config;
  }
  return nullptr;
}

double Workers(const ReportGroup& group, const ReportRuns& report) {
  const Config* config = ConfigOf(group, report);
  return config == nullptr ? 0 : config->cluster().workers();
}

double Shards(const ReportGroup& group, const ReportRuns& report) {
  const Config* config = ConfigOf(group, report);
  return config == nullptr ? 0 : config->cluster().shards();
}

// The name of a group's curve: its axes, except the count along the x axis and the batch that
// follows it.
std::string CurveName(const ReportGroup& group, const std::string& key, const std::string& word) {
  AxisValues others;
  for (const auto& [axis, value] : group.axes) {
    const bool is_count = axis == key || axis == "data.batch" || axis == "cluster.workers";
    const bool says_count = axis == "way" && absl::StrContains(value, word);
    if (!is_count && !says_count) others.emplace_back(axis, value);
  }
  if (group.twin)
    return others.empty() ? "dense, synchronous" : "dense, synchronous, " + AxesLabel(others);
  return AxesLabel(others);
}

std::string WholeNumber(double value) { return absl::StrFormat("%.4g", value); }

class ScalingFigure {
 public:
  ScalingFigure(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                const std::string& key, const std::string& word, CountOf count)
      : word_(word) {
    for (const ReportGroup& group : groups) {
      const double number = count(group, report);
      if (group.samples_per_second.count == 0 || number <= 0) continue;
      curves_[CurveName(group, key, word)].push_back({number, group.samples_per_second, &group});
    }
    std::erase_if(curves_, [](const auto& curve) { return curve.second.size() < 2; });
    for (auto& [name, points] : curves_) {
      std::ranges::sort(points, {}, &Measured::count);
      for (const Measured& point : points) counts_.push_back(point.count);
    }
    std::sort(counts_.begin(), counts_.end());
    counts_.erase(std::unique(counts_.begin(), counts_.end()), counts_.end());
  }

  bool empty() const { return counts_.size() < 2; }

  Figure Throughput() const {
    XyPlot plot{absl::StrCat("scaling-", word_),
                absl::StrCat("Throughput over ", word_),
                "",
                {word_, true, false, WholeNumber, counts_},
                {"samples/s", true, false, ReadableCount, {}},
                {},
                {}};
    std::vector<std::vector<std::string>> data{
        {"configuration", word_, "samples_per_second", "spread", "speedup", "efficiency"}};
    double best_of_one = 0;
    plot.series = SeriesOf([&](const std::string& name, const std::vector<Measured>& points,
                               const Measured& point) -> PlotPoint {
      best_of_one = std::max(best_of_one, points.front().rate.mean / points.front().count);
      data.push_back({name, CsvNumber(point.count), CsvNumber(point.rate.mean),
                      CsvNumber(point.rate.spread), CsvNumber(Speedup(points, point)),
                      CsvNumber(Efficiency(points, point))});
      return {point.count,
              point.rate.mean,
              point.rate.spread,
              absl::StrCat(point.group->label, ": ", ReadableCount(point.rate.mean), " samples/s"),
              "",
              false};
    });
    plot.below.push_back(Ideal([&](double count) { return best_of_one * count; }));
    plot.description =
        absl::StrCat(curves_.size(), " curves over ", counts_.size(), " numbers of ", word_, ".");
    return {plot.id, plot.title,
            absl::StrCat("Both axes are logarithmic. The ideal line has the best rate of the "
                         "smallest number of ",
                         word_, ", multiplied. On one machine, ", word_,
                         " beyond its cores cannot follow it."),
            Draw(plot), std::move(data)};
  }

  Figure EfficiencyFigure() const {
    XyPlot plot{absl::StrCat("efficiency-", word_),
                absl::StrCat("Efficiency over ", word_),
                "",
                {word_, true, false, WholeNumber, counts_},
                {"efficiency", false, true, WholePercent, {}},
                {},
                {}};
    std::vector<std::vector<std::string>> data{{"configuration", word_, "efficiency"}};
    plot.series = SeriesOf([&](const std::string& name, const std::vector<Measured>& points,
                               const Measured& point) -> PlotPoint {
      const double efficiency = Efficiency(points, point);
      data.push_back({name, CsvNumber(point.count), CsvNumber(efficiency)});
      return {point.count, efficiency,
              0,           absl::StrCat(point.group->label, ": ", WholePercent(efficiency)),
              "",          false};
    });
    plot.below.push_back(Ideal([](double) { return 1.0; }));
    plot.description = "Speedup divided by how many times more there are.";
    return {plot.id, plot.title,
            absl::StrCat("Samples/s for each of the ", word_,
                         ", of those that the smallest number of the same curve has."),
            Draw(plot), std::move(data)};
  }

 private:
  // One series per curve; `point_of` computes a point from a measurement.
  template <typename PointOf>
  std::vector<PlotSeries> SeriesOf(PointOf point_of) const {
    std::vector<PlotSeries> all;
    for (const auto& [name, points] : curves_) {
      const int number = static_cast<int>(all.size());
      const bool twin = points.front().group->twin;
      PlotSeries& series = all.emplace_back();
      series.name = name.empty() ? "all runs" : name;
      series.css_class = twin ? "ink" : absl::StrCat("c", number % kSeriesColors);
      series.shape = twin ? static_cast<int>(Svg::kStar) : number % Svg::kShapes;
      series.line = true;
      for (const Measured& point : points) series.points.push_back(point_of(name, points, point));
    }
    return all;
  }
  template <typename Of>
  PlotSeries Ideal(Of value_at) const {
    PlotSeries ideal = {.name = "ideal", .css_class = "ideal", .shape = -1, .line = true};
    for (const double count : counts_) ideal.points.push_back({count, value_at(count)});
    return ideal;
  }
  static double Speedup(const std::vector<Measured>& points, const Measured& point) {
    return point.rate.mean / points.front().rate.mean;
  }
  static double Efficiency(const std::vector<Measured>& points, const Measured& point) {
    return Speedup(points, point) * points.front().count / point.count;
  }

  const std::string word_;
  std::map<std::string, std::vector<Measured>> curves_;
  std::vector<double> counts_;
};

}  // namespace

MadeFigures ScalingFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                           const SeriesStyle&, const FigureOptions&) {
  MadeFigures figures;
  const ScalingFigure workers(report, groups, "cluster.workers", "workers", Workers);
  if (!workers.empty()) {
    figures.push_back(workers.Throughput());
    figures.push_back(workers.EfficiencyFigure());
  }
  const ScalingFigure shards(report, groups, "cluster.shards", "shards", Shards);
  if (!shards.empty()) figures.push_back(shards.Throughput());
  return figures;
}

}  // namespace psgd
