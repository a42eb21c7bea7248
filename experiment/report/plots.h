// Draws the kinds of plots in reports.
#pragma once

#include <string>
#include <vector>

#include "experiment/report/scale.h"
#include "experiment/report/svg.h"

namespace psgd {

struct PlotPoint {
  double x = 0;
  double y = 0;
  double spread = 0;    // of y, drawn up and down
  std::string tip{};    // the tooltip
  std::string label{};  // text beside the point; empty: none
  bool ring = false;    // draws a ring around the point
};

struct PlotSeries {
  std::string name = {};  // in the legend; empty: not in the legend
  std::vector<PlotPoint> points = {};
  std::string css_class = "c0";
  int shape = 0;  // of the markers; -1: no markers
  bool line = false;
  bool faint = false;
  bool band = false;  // the points surround an area, drawn without a line
};

struct PlotAxis {
  std::string label;
  bool logarithmic = false;
  bool zero = false;  // the axis begins at zero
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
  std::vector<PlotSeries> below;  // lines drawn below the others, such as an ideal
};
Svg Draw(const XyPlot& plot);

struct BarPart {
  double value = 0;
  std::string css_class;
  std::string tip;
};
struct Bar {
  std::string label;
  std::vector<BarPart> parts;  // drawn one after the other
  std::string text;            // at the end of the bar
  bool strong = false;
};
struct BarPlot {
  std::string id;
  std::string title;
  std::string description;
  std::string label;  // of the bars' lengths
  NumberFormat format;
  std::vector<Bar> bars;
  std::vector<std::pair<std::string, std::string>> legend;  // class and name
};
Svg Draw(const BarPlot& plot);

// Small histograms side by side, all with the same scale.
struct HistogramPlot {
  struct Panel {
    std::string label;
    std::vector<double> shares;  // the share of each whole number from 0
    std::string text;            // below the label
    std::string css_class = "c0";
  };
  std::string id;
  std::string title;
  std::string description;
  std::string label;  // of the whole numbers
  std::vector<Panel> panels;
};
Svg Draw(const HistogramPlot& plot);

// At most `most` characters; a cut text ends with three dots.
std::string Shortened(const std::string& text, size_t most);

}  // namespace psgd
