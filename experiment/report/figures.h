// The figures of a report, each with the data that it shows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiment/report/groups.h"
#include "experiment/report/plots.h"

namespace psgd {

struct Figure {
  std::string id;  // a file's name, too
  std::string title;
  std::string caption;  // how to read it
  Svg svg;
  std::vector<std::vector<std::string>> data;  // the first row names the columns
};

std::string FigureCsv(const Figure& figure);

struct FigureOptions {
  std::optional<double> target;  // accuracy to take the time to; nothing: from the runs
};

// Those that the runs have data for.
std::vector<Figure> MakeFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                                const FigureOptions& options);

// Colours by the first axis and shapes by the second, the same in every figure.
class SeriesStyle {
 public:
  explicit SeriesStyle(const std::vector<ReportGroup>& groups);
  std::string ColorOf(const ReportGroup& group) const;
  int ShapeOf(const ReportGroup& group) const;
  // What the legend of points has: a series a colour, then one a shape, both without points.
  std::vector<PlotSeries> Legend(bool line) const;
  bool colored() const { return !colors_.empty(); }

 private:
  struct Named {
    std::string axis;
    std::vector<std::string> values;
    bool empty() const { return values.empty(); }
  };
  static int PlaceIn(const Named& named, const ReportGroup& group);
  Named colors_;
  Named shapes_;
  bool twins_ = false;
};

// Numbers of a CSV file.
std::string CsvNumber(double value);

// ---- each kind, in a file of its own; nothing: there is no data for it
using MadeFigures = std::vector<Figure>;
MadeFigures AccuracyFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                            const SeriesStyle& style, const FigureOptions& options);
MadeFigures TimeFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                        const SeriesStyle& style, const FigureOptions& options);
MadeFigures ScalingFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                           const SeriesStyle& style, const FigureOptions& options);
MadeFigures AxisFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                        const SeriesStyle& style, const FigureOptions& options);
MadeFigures StalenessFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                             const SeriesStyle& style, const FigureOptions& options);

// Which of these points nobody beats in both: less cost, and more gain. Costs within half a
// per cent are the same. Indices by rising cost.
std::vector<size_t> ParetoFront(const std::vector<std::pair<double, double>>& cost_and_gain);

}  // namespace psgd
