// Figures of where the workers' time went.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiment/record/readable.h"
#include "experiment/report/figures.h"

namespace psgd {
namespace {

constexpr size_t kMostPhaseBars = 40;

}  // namespace

MadeFigures TimeFigures(const ReportRuns& report, const std::vector<ReportGroup>& groups,
                        const SeriesStyle&, const FigureOptions&) {
  BarPlot plot{
      "phases", "Where the workers' time went", "", "share of the workers' time", WholePercent, {},
      {}};
  std::vector<std::vector<std::string>> data{{"configuration", "phase", "seconds", "share"}};
  std::vector<std::string> phases;
  size_t left_out = 0;
  for (const ReportGroup& group : groups) {
    std::map<std::string, double> seconds;
    double total = 0;
    for (const size_t run : group.runs) {
      for (const auto& [phase, time] : PhasesOf(report.runs[run].data)) {
        if (std::count(phases.begin(), phases.end(), phase) == 0) phases.push_back(phase);
        seconds[phase] += time;
        total += time;
      }
    }
    if (total <= 0) continue;
    Bar bar;
    bar.label = group.twin ? group.label + " *" : group.label;
    bar.strong = group.twin;
    for (size_t i = 0; i < phases.size(); ++i) {
      const double share = seconds[phases[i]] / total;
      bar.parts.push_back({share, absl::StrCat("c", i % kSeriesColors),
                           absl::StrFormat("%s: %s %.1f %%", group.label, phases[i], share * 100)});
      data.push_back({group.label, phases[i], CsvNumber(seconds[phases[i]]), CsvNumber(share)});
    }
    if (plot.bars.size() < kMostPhaseBars || group.twin) {
      plot.bars.push_back(std::move(bar));
    } else {
      ++left_out;
    }
  }
  if (plot.bars.empty()) return {};
  for (size_t i = 0; i < phases.size(); ++i) {
    plot.legend.emplace_back(absl::StrCat("c", i % kSeriesColors), phases[i]);
  }
  plot.description = absl::StrCat(plot.bars.size(), " configurations.");
  std::string caption =
      "data: waiting for samples. compute: forward and backward, and handing updates to the "
      "network. encode: updates to payloads, and payloads of pulls to weights. wait: for weights "
      "that a shard held back, for slower workers or its journal. wire: for weights on their way. "
      "apply: for weights, while the shard took in updates. * is the twin.";
  if (left_out > 0)
    absl::StrAppend(&caption, " ", left_out, " more configurations are in the data alone.");
  std::vector<Figure> figures;
  figures.push_back({plot.id, plot.title, caption, Draw(plot), std::move(data)});
  return figures;
}

}  // namespace psgd
