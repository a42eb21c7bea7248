#include "experiment/report/figures.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/units.h"
#include "experiment/record/readable.h"
#include "experiment/report/table.h"

namespace psgd {

namespace {

constexpr double kManyTimes = 8;     // a range this wide needs a logarithmic axis
constexpr double kSameCost = 0.005;  // relative; headers that were sent twice cost less

// Writes "50 MB" for "50.0 MB".
std::string WithoutZeros(const std::string& text) {
  const size_t space = text.find(' ');
  std::string digits = text.substr(0, space);
  if (digits.find('.') != std::string::npos) {
    digits.resize(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  return space == std::string::npos ? digits : digits + text.substr(space);
}

}  // namespace

std::string CsvNumber(double value) { return absl::StrFormat("%.8g", value); }

bool SpansDecades(const std::vector<double>& numbers) {
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  return *low > 0 && *high / *low >= kManyTimes;
}

std::string RoundBytes(double bytes) { return WithoutZeros(HumanBytes(bytes)); }

std::string RoundCount(double count) { return WithoutZeros(ReadableCount(count)); }

std::string FigureCsv(const Figure& figure) { return Csv(figure.data); }

std::vector<size_t> ParetoFront(const std::vector<std::pair<double, double>>& cost_and_gain) {
  std::vector<size_t> order(cost_and_gain.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto& [cost_a, gain_a] = cost_and_gain[a];
    const auto& [cost_b, gain_b] = cost_and_gain[b];
    return cost_a != cost_b ? cost_a < cost_b : gain_a > gain_b;
  });
  std::vector<size_t> front;
  for (const size_t index : order) {
    const auto& [cost, gain] = cost_and_gain[index];
    if (!front.empty() && gain <= cost_and_gain[front.back()].second) continue;
    if (!front.empty() && cost <= cost_and_gain[front.back()].first * (1 + kSameCost))
      front.pop_back();
    front.push_back(index);
  }
  return front;
}

SeriesStyle::SeriesStyle(const std::vector<ReportGroup>& groups) {
  std::vector<Named> axes;
  for (const ReportGroup& group : groups) {
    twins_ = twins_ || group.twin;
    for (const auto& [axis, value] : group.axes) {
      auto named = std::ranges::find(axes, axis, &Named::axis);
      if (named == axes.end()) named = axes.insert(axes.end(), Named{axis, {}});
      if (std::count(named->values.begin(), named->values.end(), value) == 0)
        named->values.push_back(value);
    }
  }
  // An axis with one value distinguishes no runs.
  std::erase_if(axes, [](const Named& named) { return named.values.size() < 2; });
  const auto take = [&](size_t most) {
    const auto fits = std::find_if(axes.begin(), axes.end(),
                                   [&](const Named& named) { return named.values.size() <= most; });
    if (fits == axes.end()) return Named();
    Named taken = *fits;
    axes.erase(fits);
    return taken;
  };
  colors_ = take(kSeriesColors);
  shapes_ = take(Svg::kShapes);
}

int SeriesStyle::PlaceIn(const Named& named, const ReportGroup& group) {
  for (const auto& [axis, value] : group.axes) {
    if (axis != named.axis) continue;
    const auto place = std::find(named.values.begin(), named.values.end(), value);
    if (place != named.values.end()) return static_cast<int>(place - named.values.begin());
  }
  return -1;
}

std::string SeriesStyle::ColorOf(const ReportGroup& group) const {
  if (group.twin) return "ink";
  const int place = PlaceIn(colors_, group);
  return absl::StrCat("c", colors_.values.empty() ? 0 : place < 0 ? kSeriesColors - 1 : place);
}

int SeriesStyle::ShapeOf(const ReportGroup& group) const {
  return group.twin ? Svg::kStar : std::max(0, PlaceIn(shapes_, group));
}

std::vector<PlotSeries> SeriesStyle::Legend(bool line) const {
  std::vector<PlotSeries> legend;
  const auto add = [&](const std::string& name, const std::string& color, int shape) {
    legend.push_back({.name = name, .css_class = color, .shape = line ? -1 : shape, .line = line});
  };
  if (twins_) add("dense, synchronous (twin)", "ink", Svg::kStar);
  for (size_t i = 0; i < colors_.values.size(); ++i) {
    const std::string axis = colors_.axis == "way" ? "" : ShortKey(colors_.axis) + " ";
    add(axis + colors_.values[i], absl::StrCat("c", i), 0);
  }
  if (line) return legend;
  for (size_t i = 0; i < shapes_.values.size(); ++i) {
    const std::string axis = shapes_.axis == "way" ? "" : ShortKey(shapes_.axis) + " ";
    add(axis + shapes_.values[i], "c7", static_cast<int>(i));
  }
  return legend;
}

std::vector<Figure> MakeFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                                const FigureOptions& options) {
  const SeriesStyle style(groups);
  std::vector<Figure> figures;
  for (const auto& make : {MetricFigures, CurveFigures, LearningFigures, ScalingFigures,
                           AxisFigures, TimeFigures, StalenessFigures}) {
    for (Figure& figure : make(report, groups, style, options))
      figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace psgd
