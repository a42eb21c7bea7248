// Figures of the test error over the size of the training set.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/config/flat_config.h"
#include "experiment/record/readable.h"
#include "experiment/report/figures.h"
#include "experiment/report/learning_curve.h"

namespace psgd {
namespace {

constexpr double kBeyond = 4;     // the law is drawn up to so many times the largest size
constexpr double kClipped = 1.5;  // the band may leave the points' range by this factor
constexpr int kPlaces = 40;       // of the law and its band
constexpr double kTargets[] = {0.9, 0.75, 0.5};  // of the lowest error
constexpr double kMostSamples = 1e12;            // larger estimates mean nothing

// What may differ along a curve: small sets need more epochs to converge.
bool FollowsSize(const std::string& key) {
  return key == "name" || key == "seed" || key == "data.train_samples" ||
         key == "data.synthetic.train_samples" || key.starts_with("train.") ||
         key.starts_with("schedule");
}

// 0: not known, because the run takes all samples of its files.
double SizeOf(const Config& config) {
  const DataConfig& data = config.data();
  auto size = static_cast<double>(data.train_samples());
  if (data.format() == DataConfig::SYNTHETIC) {
    const auto made = static_cast<double>(data.synthetic().train_samples());
    size = size > 0 ? std::min(size, made) : made;
  }
  return size;
}

struct Measure {
  const char* id;
  std::string title;
  std::string word;
  Statistic (*of)(const ReportGroup&);
  NumberFormat format;
};

// The part that a share lacks.
Statistic LackOf(const ReportGroup& group) {
  Statistic error = group.score;
  error.mean = 1 - group.score.mean;
  error.low = 1 - group.score.high;
  error.high = 1 - group.score.low;
  return error;
}

Statistic ScoreOfGroup(const ReportGroup& group) { return group.score; }

// The error: what a share lacks to 1, or a metric that is better if it is smaller.
Measure ErrorMeasure(const Metric& metric) {
  const std::string word =
      metric.smaller_is_better ? absl::StrCat("test ", metric.name) : "test error";
  return {"learning-curve-error", absl::StrCat("T", word.substr(1), " over training samples"), word,
          metric.smaller_is_better ? ScoreOfGroup : LackOf,
          [metric](double value) { return metric.ShortText(value); }};
}

Statistic LossOf(const ReportGroup& group) { return group.loss; }

std::string LossAtAxis(double loss) { return absl::StrFormat("%.3g", loss); }

// Groups that differ in the size of the training set alone.
struct Curve {
  std::string name;
  bool twin = false;
  std::vector<const ReportGroup*> groups;
  std::vector<double> sizes;
};

void KeepCommon(const AxisValues& axes, AxisValues* common) {
  std::erase_if(*common,
                [&](const auto& axis) { return std::count(axes.begin(), axes.end(), axis) == 0; });
}

std::vector<Curve> CurvesOf(const ReportRuns& report, const std::vector<ReportGroup>& groups) {
  std::vector<Curve> curves;
  std::vector<AxisValues> common;
  std::map<FlatConfig, size_t> places;
  for (const ReportGroup& group : groups) {
    const auto& config = report.runs[group.runs.front()].data.config;
    if (!config || group.done == 0) continue;
    const double size = SizeOf(*config);
    if (size <= 0) continue;
    FlatConfig flat = Flatten(*config, /*with_defaults=*/true);
    std::erase_if(flat, [](const auto& setting) { return FollowsSize(setting.first); });
    const auto [place, is_new] = places.emplace(std::move(flat), curves.size());
    if (is_new) {
      curves.push_back({"", group.twin, {}, {}});
      common.push_back(group.axes);
    }
    Curve& curve = curves[place->second];
    curve.groups.push_back(&group);
    curve.sizes.push_back(size);
    KeepCommon(group.axes, &common[place->second]);
  }
  const auto twins = std::ranges::count_if(curves, [](const Curve& curve) { return curve.twin; });
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string label = AxesLabel(common[i]);
    curves[i].name = !curves[i].twin ? label
                     : twins > 1     ? absl::StrCat("dense, synchronous, ", label)
                                     : "dense, synchronous";
    if (curves[i].name.empty()) curves[i].name = "all runs";
  }
  std::erase_if(curves, [](const Curve& curve) {
    return std::set<double>(curve.sizes.begin(), curve.sizes.end()).size() < 2;
  });
  std::stable_partition(curves.begin(), curves.end(),
                        [](const Curve& curve) { return curve.twin; });
  return curves;
}

std::string SizeText(double size) {
  return size < kMostSamples ? ReadableCount(size) : "over " + ReadableCount(kMostSamples);
}

std::string IntervalText(const Interval& interval, std::string (*format)(double)) {
  if (interval.low >= kMostSamples) return "";
  if (interval.high >= kMostSamples) return absl::StrCat(" (at least ", format(interval.low), ")");
  return absl::StrCat(" (", format(interval.low), " to ", format(interval.high), ")");
}

std::string Times(double factor) { return absl::StrFormat("%.3g", factor); }

std::string TargetText(const LearningCurve& fit, double error) {
  const double size = fit.law().SizeFor(error);
  return absl::StrCat(std::isfinite(size) ? SizeText(size) : "not reached: below the fitted floor",
                      IntervalText(fit.SizeIntervalFor(error), SizeText));
}

std::string LawText(const LearningCurve& fit, const NumberFormat& format) {
  const PowerLaw& law = fit.law();
  return absl::StrCat(absl::StrFormat("%.3g m^%.3f", law.factor, law.exponent),
                      !fit.fitted_floor() ? ", no floor fitted"
                      : law.floor > 0     ? " + " + format(law.floor)
                                          : " + 0");
}

std::string HalvesText(const LearningCurve& fit, const Measure& measure) {
  const std::string part =
      fit.law().floor > 0 ? absl::StrCat("The part of the ", measure.word, " above the floor of ",
                                         measure.format(fit.law().floor))
                          : absl::StrCat("The ", measure.word);
  return absl::StrCat(part, " halves with ", Times(fit.GrowthToHalve()), " times more data",
                      IntervalText(fit.GrowthIntervalToHalve(), Times), ".");
}

// Draws one measure of all curves.
class LearningFigure {
 public:
  LearningFigure(const Measure& measure, size_t curves)
      : measure_(measure),
        curves_(curves),
        plot_{measure.id,
              measure.title,
              "",
              {"training samples", true, false, RoundCount, {}},
              {measure.word, true, false, measure.format, {}},
              {},
              {}},
        data_{{"configuration", "training_samples", measure.word, "spread", "seeds", "fitted"}},
        table_{{"configuration", "fit, of m samples", absl::StrCat("lowest ", measure.word)}} {
    for (const double target : kTargets)
      table_.front().push_back(absl::StrFormat("m for %g times that", target));
  }

  void Add(const Curve& curve) {
    std::vector<MeasuredError> points;
    for (size_t i = 0; i < curve.groups.size(); ++i) {
      const Statistic error = measure_.of(*curve.groups[i]);
      if (error.count > 0) points.push_back({curve.sizes[i], error});
    }
    if (points.empty()) return;
    std::ranges::sort(points, {}, &MeasuredError::size);
    PlotSeries series;
    series.name = curves_ > 1 ? curve.name : "";
    series.css_class = curve.twin ? "ink" : absl::StrCat("c", color_);
    series.shape = curve.twin ? Svg::kStar : color_ % Svg::kShapes;
    if (!curve.twin) ++color_;
    const auto fit = LearningCurve::Fit(points);
    for (const auto& [size, error] : points) {
      if (error.mean <= 0) ++zeros_;
      series.points.push_back({size, error.mean, error.spread,
                               absl::StrCat(curve.name, ", ", ReadableCount(size),
                                            " samples: ", measure_.format(error.mean)),
                               "", false});
      data_.push_back({curve.name, CsvNumber(size), CsvNumber(error.mean), CsvNumber(error.spread),
                       absl::StrCat(error.count),
                       fit.ok() ? CsvNumber(fit->law().ErrorAt(size)) : ""});
    }
    if (fit.ok()) {
      DrawFit(*fit, points, series.css_class);
      std::vector<std::string> row{curve.name, LawText(*fit, measure_.format),
                                   measure_.format(fit->lowest_error())};
      for (const double target : kTargets)
        row.push_back(TargetText(*fit, target * fit->lowest_error()));
      table_.push_back(std::move(row));
      absl::StrAppend(&words_, " ", curves_ > 1 ? curve.name + ": " : "",
                      HalvesText(*fit, measure_));
    } else {
      absl::StrAppend(&words_, " ", curve.name, ": no fit, ", fit.status().message(), ".");
    }
    plot_.series.push_back(std::move(series));
  }

  std::optional<Figure> Take(size_t left_out) {
    if (plot_.series.empty()) return std::nullopt;
    plot_.description = absl::StrCat(plot_.series.size(), " curves.");
    std::string caption =
        "Points: means over seeds after the last epoch, with their standard deviation. Lines: the "
        "fitted power law with the interval that holds it in 95 % of the draws; beyond the largest "
        "size it is a prediction.";
    caption += words_;
    if (zeros_ > 0) {
      absl::StrAppend(&caption, " Not drawn or fitted: ", zeros_,
                      zeros_ == 1 ? " size without an error." : " sizes without an error.");
    }
    if (left_out > 0) absl::StrAppend(&caption, " ", left_out, " more curves are not drawn.");
    if (table_.size() < 2) table_.clear();
    return Figure{plot_.id, plot_.title, caption, Draw(plot_), std::move(data_), std::move(table_)};
  }

 private:
  void DrawFit(const LearningCurve& fit, const std::vector<MeasuredError>& points,
               const std::string& css_class) {
    PlotSeries line = {.css_class = css_class, .shape = -1, .line = true};
    PlotSeries band = {.css_class = css_class, .shape = -1, .band = true};
    double lowest = fit.law().ErrorAt(points.back().size * kBeyond), highest = 0;
    for (const auto& [size, error] : points) {
      if (error.mean > 0) lowest = std::min(lowest, error.mean);
      highest = std::max(highest, error.mean);
    }
    std::vector<PlotPoint> back;
    const double way = std::log(kBeyond * points.back().size / points.front().size);
    for (int i = 0; i <= kPlaces; ++i) {
      const double size = points.front().size * std::exp(way * i / kPlaces);
      const Interval interval = fit.ErrorIntervalAt(size);
      line.points.push_back({size, fit.law().ErrorAt(size)});
      band.points.push_back({size, std::min(interval.high, highest * kClipped)});
      back.push_back({size, std::max(interval.low, lowest / kClipped)});
    }
    band.points.insert(band.points.end(), back.rbegin(), back.rend());
    plot_.below.push_back(std::move(band));
    plot_.below.push_back(std::move(line));
  }

  const Measure measure_;
  const size_t curves_;
  XyPlot plot_;
  std::vector<std::vector<std::string>> data_;
  std::vector<std::vector<std::string>> table_;
  std::string words_;
  size_t zeros_ = 0;
  int color_ = 0;
};

}  // namespace

MadeFigures LearningFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                            const SeriesStyle&, const FigureOptions&) {
  std::vector<Curve> curves = CurvesOf(report, groups);
  size_t left_out = 0;
  if (curves.size() > kSeriesColors) {
    left_out = curves.size() - kSeriesColors;
    curves.resize(kSeriesColors);
  }
  MadeFigures figures;
  for (const Measure& measure : {ErrorMeasure(report.metric),
                                 Measure{"learning-curve-loss", "Test loss over training samples",
                                         "test loss", LossOf, LossAtAxis}}) {
    LearningFigure figure(measure, curves.size());
    for (const Curve& curve : curves) figure.Add(curve);
    if (auto made = figure.Take(left_out)) figures.push_back(*std::move(made));
  }
  return figures;
}

}  // namespace psgd
