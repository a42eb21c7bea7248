// Figures of how stale the weights were that workers used.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/report/figures.h"

namespace psgd {
namespace {

constexpr size_t kMostPanels = 24;
constexpr size_t kLargest = 40;  // larger values are counted here

}  // namespace

MadeFigures StalenessFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                             const SeriesStyle& style, const FigureOptions&) {
  HistogramPlot plot{"staleness",
                     "Staleness of pulls",
                     "",
                     "clocks that the puller led the slowest worker by",
                     {}};
  std::vector<std::vector<std::string>> data{{"configuration", "staleness", "pulls", "share"}};
  size_t left_out = 0;
  for (const ReportGroup& group : groups) {
    std::vector<double> counts;
    for (const size_t run : group.runs) {
      const std::vector<uint64_t>& pulls = report.runs[run].data.pull_staleness;
      if (counts.size() < pulls.size()) counts.resize(pulls.size());
      for (size_t n = 0; n < pulls.size(); ++n) counts[n] += static_cast<double>(pulls[n]);
    }
    const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
    if (total <= 0) continue;
    HistogramPlot::Panel panel;
    panel.label = group.label;
    panel.css_class = style.ColorOf(group);
    double mean = 0;
    size_t largest = 0;
    for (size_t n = 0; n < counts.size(); ++n) {
      if (counts[n] <= 0) continue;
      data.push_back(
          {group.label, absl::StrCat(n), CsvNumber(counts[n]), CsvNumber(counts[n] / total)});
      mean += static_cast<double>(n) * counts[n] / total;
      largest = n;
      panel.shares.resize(std::min(n, kLargest) + 1);
      panel.shares.back() += counts[n] / total;
    }
    panel.text = absl::StrFormat("mean %.2f, largest %d", mean, largest);
    // Synchronous runs have no staleness to show.
    if (largest == 0) continue;
    if (plot.panels.size() < kMostPanels) {
      plot.panels.push_back(std::move(panel));
    } else {
      ++left_out;
    }
  }
  if (plot.panels.empty()) return {};
  plot.description = absl::StrCat(plot.panels.size(), " histograms.");
  std::string caption = absl::StrCat(
      "Configurations whose pulls were all at staleness 0 are not drawn; what is above ", kLargest,
      " is counted there.");
  if (left_out > 0)
    absl::StrAppend(&caption, " ", left_out, " more configurations are in the data alone.");
  std::vector<Figure> figures;
  figures.push_back({plot.id, plot.title, caption, Draw(plot), std::move(data)});
  return figures;
}

}  // namespace psgd
