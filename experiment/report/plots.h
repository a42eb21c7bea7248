// The kinds of plots that reports are made of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiment/report/scale.h"
#include "experiment/report/svg.h"

namespace psgd {

struct PlotPoint {
  double x = 0;
  double y = 0;
  double spread = 0;    // of y, shown up and down
  std::string tip{};    // shown when somebody points at it
  std::string label{};  // beside it; empty: none
  bool ring = false;    // marked
};

struct PlotSeries {
  std::string name;  // in the legend; empty: not there
  std::vector<PlotPoint> points;
  std::string css_class = "c0";
  int shape = 0;  // of its markers; -1: none
  bool line = false;
  bool faint = false;
};

struct PlotAxis {
  std::string label;
  bool logarithmic = false;
  bool zero = false;  // begins there
  NumberFormat format;
  std::vector<double> ticks;  // instead of round numbers
};

struct XyPlot {
  std::string id;
  std::string title;
  std::string description;
  PlotAxis x;
  PlotAxis y;
  std::vector<PlotSeries> series;
  std::vector<PlotSeries> below;  // lines that are drawn first, as an ideal
};
Svg Draw(const XyPlot& plot);

struct BarPart {
  double value = 0;
  std::string css_class;
  std::string tip;
};
struct Bar {
  std::string label;
  std::vector<BarPart> parts;  // one after the other
  std::string text;            // at its end
  bool strong = false;
};
struct BarPlot {
  std::string id;
  std::string title;
  std::string description;
  std::string label;  // of the lengths
  NumberFormat format;
  std::vector<Bar> bars;
  std::vector<std::pair<std::string, std::string>> legend;  // class and name
};
Svg Draw(const BarPlot& plot);

// Small histograms side by side, with one scale of shares.
struct HistogramPlot {
  struct Panel {
    std::string label;
    std::vector<double> shares;  // of each whole number from 0
    std::string text;            // below the label
    std::string css_class = "c0";
  };
  std::string id;
  std::string title;
  std::string description;
  std::string label;  // of the numbers
  std::vector<Panel> panels;
};
Svg Draw(const HistogramPlot& plot);

// At most so many characters, the last three of them dots.
std::string Shortened(const std::string& text, size_t most);

}  // namespace psgd
