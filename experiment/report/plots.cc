#include "experiment/report/plots.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace psgd {
namespace {

constexpr double kWidth = 780;
constexpr double kTop = 16;
constexpr double kLegendWidth = 200;
constexpr double kLetter = 6.4;  // width of a letter at 12 px
constexpr size_t kLegendLetters = 27;

// ------------------------------------------------------------------ points and lines
constexpr double kXyHeight = 400;
constexpr double kLeft = 74;
constexpr double kBottom = 46;

struct Frame {
  double left, right, top, bottom;
};

bool HasLegend(const XyPlot& plot) {
  const auto named = [](const PlotSeries& series) { return !series.name.empty(); };
  return std::any_of(plot.series.begin(), plot.series.end(), named) ||
         std::any_of(plot.below.begin(), plot.below.end(), named);
}

Scale ScaleOf(const XyPlot& plot, bool of_x, const PlotAxis& axis, double from, double to) {
  std::vector<double> numbers = axis.ticks;
  const auto add = [&](const std::vector<PlotSeries>& all) {
    for (const PlotSeries& series : all) {
      for (const PlotPoint& point : series.points) {
        numbers.push_back(of_x ? point.x : point.y - point.spread);
        if (!of_x) numbers.push_back(point.y + point.spread);
      }
    }
  };
  add(plot.series);
  add(plot.below);
  return Scale(numbers, axis.logarithmic, axis.zero, from, to);
}

void DrawAxes(const XyPlot& plot, const Frame& frame, const Scale& x, const Scale& y, Svg* svg) {
  for (const double tick : plot.y.ticks.empty() ? y.Ticks(6) : plot.y.ticks) {
    svg->Line(frame.left, y.At(tick), frame.right, y.At(tick), "rule");
    svg->Text(frame.left - 6, y.At(tick) + 4, Anchor::kEnd, plot.y.format(tick), "soft");
  }
  double free_from = frame.left - 30;
  for (const double tick : plot.x.ticks.empty() ? x.Ticks(8) : plot.x.ticks) {
    const std::string text = plot.x.format(tick);
    const double half = static_cast<double>(text.size()) * kLetter / 2;
    svg->Line(x.At(tick), frame.bottom, x.At(tick), frame.bottom + 4, "axis");
    if (x.At(tick) - half < free_from) continue;  // the text would overlap the previous one
    free_from = x.At(tick) + half + kLetter;
    svg->Text(x.At(tick), frame.bottom + 18, Anchor::kMiddle, text, "soft");
  }
  svg->Line(frame.left, frame.bottom, frame.right, frame.bottom, "axis");
  svg->Text((frame.left + frame.right) / 2, frame.bottom + 38, Anchor::kMiddle, plot.x.label,
            "soft");
  svg->TextUp(14, (frame.top + frame.bottom) / 2, plot.y.label);
}

// Draws labels. Skips a label that would overlap another; the point's tooltip still shows it.
class Labels {
 public:
  Labels(const Frame& frame, Svg* svg) : frame_(frame), svg_(svg) {}
  void Add(double x, double y, const std::string& text) {
    const double width = static_cast<double>(text.size()) * kLetter;
    const bool to_the_left = x + 8 + width > frame_.right;
    for (const double up : {-7.0, 16.0, -20.0}) {
      const Frame box{to_the_left ? x - 8 - width : x + 8, to_the_left ? x - 8 : x + 8 + width,
                      y + up - 11, y + up + 3};
      const bool outside =
          box.left < frame_.left || box.top < frame_.top || box.bottom > frame_.bottom;
      const bool taken = std::any_of(taken_.begin(), taken_.end(), [&](const Frame& other) {
        return box.left < other.right && other.left < box.right && box.top < other.bottom &&
               other.top < box.bottom;
      });
      if (outside || taken) continue;
      taken_.push_back(box);
      svg_->Text(to_the_left ? x - 8 : x + 8, y + up, to_the_left ? Anchor::kEnd : Anchor::kStart,
                 text);
      return;
    }
  }

 private:
  const Frame frame_;
  Svg* const svg_;
  std::vector<Frame> taken_;
};

std::string LineClass(const PlotSeries& series, const char* more) {
  const bool plain = series.css_class == "ideal" || series.css_class == "front";
  return plain ? series.css_class : absl::StrCat("line ", more, series.css_class);
}

void DrawSeries(const PlotSeries& series, const Scale& x, const Scale& y, Labels* labels,
                Svg* svg) {
  std::vector<std::pair<double, double>> places;
  for (const PlotPoint& point : series.points) {
    if (x.Shows(point.x) && y.Shows(point.y)) places.emplace_back(x.At(point.x), y.At(point.y));
  }
  if (series.band) {
    svg->Polyline(places, absl::StrCat("band ", series.css_class));
    return;
  }
  if (series.line && places.size() > 1) {
    svg->Polyline(places, LineClass(series, series.faint ? "faint " : ""), series.name);
  }
  for (const PlotPoint& point : series.points) {
    if (series.shape < 0 || !x.Shows(point.x) || !y.Shows(point.y)) continue;
    const double at_x = x.At(point.x), at_y = y.At(point.y);
    if (point.spread > 0) {
      svg->Line(at_x, y.At(point.y - point.spread), at_x, y.At(point.y + point.spread),
                "bar-error");
    }
    if (point.ring) svg->Marker(0, at_x, at_y, 9, "ring");
    svg->Marker(series.shape, at_x, at_y, series.line ? 3 : 4.5, series.css_class, point.tip);
    if (!point.label.empty()) labels->Add(at_x, at_y, point.label);
  }
}

void DrawLegend(const XyPlot& plot, double left, Svg* svg) {
  constexpr double kLast = kXyHeight - 28;
  double y = kTop + 8;
  size_t left_out = 0;
  const auto draw = [&](const PlotSeries& series) {
    if (series.name.empty()) return;
    if (y > kLast) {
      ++left_out;
      return;
    }
    if (series.line) {
      svg->Line(left, y - 4, left + 18, y - 4, LineClass(series, ""));
    }
    if (series.shape >= 0) svg->Marker(series.shape, left + 9, y - 4, 4, series.css_class);
    svg->Text(left + 24, y, Anchor::kStart, Shortened(series.name, kLegendLetters));
    y += 18;
  };
  for (const PlotSeries& series : plot.series) draw(series);
  for (const PlotSeries& series : plot.below) draw(series);
  if (left_out > 0) {
    svg->Text(left + 24, y, Anchor::kStart, absl::StrCat("and ", left_out, " more"), "soft");
  }
}

// ------------------------------------------------------------------ bars
constexpr double kBarHeight = 16;
constexpr double kBarStep = 22;
constexpr size_t kBarLetters = 38;

}  // namespace

std::string Shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

Svg Draw(const XyPlot& plot) {
  Svg svg(kWidth, kXyHeight, plot.id, plot.title, plot.description);
  const Frame frame{kLeft, HasLegend(plot) ? kWidth - kLegendWidth - 16 : kWidth - 16, kTop,
                    kXyHeight - kBottom};
  const Scale x = ScaleOf(plot, true, plot.x, frame.left, frame.right);
  const Scale y = ScaleOf(plot, false, plot.y, frame.bottom, frame.top);
  DrawAxes(plot, frame, x, y, &svg);
  Labels labels(frame, &svg);
  for (const PlotSeries& series : plot.below) DrawSeries(series, x, y, &labels, &svg);
  for (const PlotSeries& series : plot.series) DrawSeries(series, x, y, &labels, &svg);
  if (HasLegend(plot)) DrawLegend(plot, kWidth - kLegendWidth, &svg);
  return svg;
}

Svg Draw(const BarPlot& plot) {
  const double legend = plot.legend.empty() ? 0 : 26;
  const double height = kTop + legend + kBarStep * static_cast<double>(plot.bars.size()) + kBottom;
  Svg svg(kWidth, height, plot.id, plot.title, plot.description);
  size_t longest = 8, longest_text = 0;
  std::vector<double> lengths;
  for (const Bar& bar : plot.bars) {
    longest = std::max(longest, std::min(bar.label.size(), kBarLetters));
    longest_text = std::max(longest_text, bar.text.size());
    double sum = 0;
    for (const BarPart& part : bar.parts) sum += part.value;
    lengths.push_back(sum);
  }
  const double left = 12 + static_cast<double>(longest) * kLetter;
  const double right = kWidth - 16 - static_cast<double>(longest_text) * kLetter;
  const Scale x(lengths, false, true, left, right);
  double place = left;
  for (const auto& [css_class, name] : plot.legend) {
    svg.Rect(place, kTop - 8, 12, 12, css_class);
    svg.Text(place + 17, kTop + 2, Anchor::kStart, name);
    place += 36 + static_cast<double>(name.size()) * kLetter;
  }
  const double bottom = height - kBottom + 6;
  double free_from = 0;
  for (const double tick : x.Ticks(6)) {
    const std::string text = plot.format(tick);
    const double half = static_cast<double>(text.size()) * kLetter / 2;
    svg.Line(x.At(tick), kTop + legend - 4, x.At(tick), bottom, "rule");
    if (x.At(tick) - half < free_from) continue;
    free_from = x.At(tick) + half + kLetter;
    svg.Text(x.At(tick), bottom + 16, Anchor::kMiddle, text, "soft");
  }
  double y = kTop + legend;
  for (const Bar& bar : plot.bars) {
    svg.Text(left - 8, y + 12, Anchor::kEnd, Shortened(bar.label, kBarLetters),
             bar.strong ? "strong" : "");
    double from = 0;
    for (const BarPart& part : bar.parts) {
      if (part.value > 0) {
        svg.Rect(x.At(from), y, std::max(0.5, x.At(from + part.value) - x.At(from)), kBarHeight,
                 part.css_class, part.tip);
      }
      from += part.value;
    }
    svg.Text(x.At(from) + 6, y + 12, Anchor::kStart, bar.text, bar.parts.empty() ? "soft" : "");
    y += kBarStep;
  }
  svg.Line(left, kTop + legend - 4, left, bottom, "axis");
  svg.Text((left + right) / 2, bottom + 34, Anchor::kMiddle, plot.label, "soft");
  return svg;
}

Svg Draw(const HistogramPlot& plot) {
  constexpr int kColumns = 3;
  constexpr double kPanelHeight = 150;
  constexpr double kPanel = (kWidth - 16) / kColumns;
  constexpr size_t kFewestNumbers = 6;
  const int rows = (static_cast<int>(plot.panels.size()) + kColumns - 1) / kColumns;
  Svg svg(kWidth, kTop + rows * kPanelHeight + 24, plot.id, plot.title, plot.description);
  double highest = 0.01;
  for (const auto& panel : plot.panels) {
    for (const double share : panel.shares) highest = std::max(highest, share);
  }
  for (size_t i = 0; i < plot.panels.size(); ++i) {
    const auto& panel = plot.panels[i];
    const double left = 40 + kPanel * static_cast<double>(i % kColumns);
    const double top = kTop + kPanelHeight * static_cast<double>(i / kColumns);
    const double width = kPanel - 52, base = top + kPanelHeight - 30, room = kPanelHeight - 70;
    svg.Text(left, top + 6, Anchor::kStart, Shortened(panel.label, 30), "strong");
    svg.Text(left, top + 22, Anchor::kStart, panel.text, "soft");
    for (const double share : {0.5 * highest, highest}) {
      svg.Line(left, base - room * share / highest, left + width, base - room * share / highest,
               "rule");
      svg.Text(left - 4, base - room * share / highest + 4, Anchor::kEnd,
               absl::StrFormat("%.0f%%", share * 100), "soft");
    }
    const size_t longest = std::max(kFewestNumbers, panel.shares.size());
    const double bar = width / static_cast<double>(longest);
    for (size_t n = 0; n < panel.shares.size(); ++n) {
      const double tall = room * panel.shares[n] / highest;
      if (panel.shares[n] <= 0) continue;
      svg.Rect(
          left + bar * static_cast<double>(n) + bar * 0.1, base - std::max(tall, 0.5), bar * 0.8,
          std::max(tall, 0.5), panel.css_class,
          absl::StrFormat("%s: %d in %.2f %% of pulls", panel.label, n, panel.shares[n] * 100));
    }
    svg.Line(left, base, left + width, base, "axis");
    const size_t step = std::max<size_t>(1, (longest + 7) / 8);
    for (size_t n = 0; n < longest; n += step) {
      svg.Text(left + bar * (static_cast<double>(n) + 0.5), base + 15, Anchor::kMiddle,
               absl::StrCat(n), "soft");
    }
  }
  svg.Text(kWidth / 2, kTop + rows * kPanelHeight + 14, Anchor::kMiddle, plot.label, "soft");
  return svg;
}

}  // namespace psgd
