// The figures of a report, each with its data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/report/groups.h"
#include "experiment/report/plots.h"

namespace psgd {

struct Figure {
  std::string id;  // also the name of its file
  std::string title;
  std::string caption;  // how to read the figure
  Svg svg;
  std::vector<std::vector<std::string>> data;     // the first row names the columns
  std::vector<std::vector<std::string>> table{};  // likewise, shown below the caption; empty: none
};

std::string FigureCsv(const Figure& figure);

struct FigureOptions {
  std::optional<double> target;  // of the time to a score; nothing: derived from the runs
};

// Makes every figure that the runs have data for.
std::vector<Figure> MakeFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                                const FigureOptions& options);

// The first axis sets colors and the second sets shapes, the same in every figure. Immutable.
class SeriesStyle {
 public:
  explicit SeriesStyle(const std::vector<ReportGroup>& groups);
  std::string ColorOf(const ReportGroup& group) const;
  int ShapeOf(const ReportGroup& group) const;
  // The legend of points: a series per color, then a series per shape, without points.
  std::vector<PlotSeries> Legend(bool line) const;

 private:
  struct Named {
    std::string axis;
    std::vector<std::string> values;
  };
  static int PlaceIn(const Named& named, const ReportGroup& group);
  Named colors_;
  Named shapes_;
  bool twins_ = false;
};

// For ticks: "50 MB" and "1 k", without zeros behind the point.
std::string RoundBytes(double bytes);
std::string RoundCount(double count);

// True if the numbers need a logarithmic axis. REQUIRES: there are some.
bool SpansDecades(const std::vector<double>& numbers);

// Formats a number for a CSV file.
std::string CsvNumber(double value);

// ---- one file per kind; empty: no data for it
using MadeFigures = std::vector<Figure>;
using FigureMaker = MadeFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                                const SeriesStyle& style, const FigureOptions& options);
FigureMaker MetricFigures, CurveFigures, LearningFigures, TimeFigures, ScalingFigures, AxisFigures,
    StalenessFigures;

// The points that no other point beats in both cost and gain, by rising cost. Costs within half a
// percent count as equal.
std::vector<size_t> ParetoFront(const std::vector<std::pair<double, double>>& cost_and_gain);

}  // namespace psgd
