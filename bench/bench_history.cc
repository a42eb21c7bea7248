#include "bench/bench_history.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiment/report/page_parts.h"
#include "experiment/report/plots.h"

namespace psgd {
namespace {

constexpr size_t kMostTicks = 6;

// Of a line. All others are settings.
const std::set<std::string>& Keys() {
  static const auto* const keys = new std::set<std::string>{
      "date", "machine", "commit", "bench", "case", "gbps", "limit_gbps", "ratio"};
  return *keys;
}

// By machine and benchmark, then by case and settings; in the order of the file.
using Cases = std::map<std::string, std::vector<HistoryEntry>>;
using History = std::map<std::pair<std::string, std::string>, Cases>;

std::string SettingsText(const BenchRow& row) {
  return absl::StrJoin(row.settings, ", ", absl::PairFormatter(" "));
}

// Results with other settings say nothing of a change. They are named where a case has several.
History ByCase(const std::vector<HistoryEntry>& entries) {
  std::map<std::tuple<std::string, std::string, std::string>, std::set<std::string>> settings;
  const auto settings_of = [&](const HistoryEntry& entry) -> std::set<std::string>& {
    return settings[{entry.machine, entry.row.bench, entry.row.name}];
  };
  for (const HistoryEntry& entry : entries) settings_of(entry).insert(SettingsText(entry.row));
  History history;
  for (const HistoryEntry& entry : entries) {
    const std::string own = SettingsText(entry.row);
    const bool named = settings_of(entry).size() > 1 && !own.empty();
    const std::string name = absl::StrCat(entry.row.name, named ? ", " : "", named ? own : "");
    history[{entry.machine, entry.row.bench}][name].push_back(entry);
  }
  return history;
}

// All benchmarks of one day and commit share a place on the axis.
std::map<std::string, size_t> Places(const std::vector<HistoryEntry>& entries) {
  std::map<std::string, size_t> places;
  for (const HistoryEntry& entry : entries)
    places.try_emplace(absl::StrCat(entry.date, " ", entry.commit), places.size() + 1);
  return places;
}

}  // namespace

absl::StatusOr<std::vector<HistoryEntry>> ReadHistory(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFoundError("cannot read ", path, "; scripts/bench.sh writes it");
  std::vector<HistoryEntry> entries;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    try {
      HistoryEntry entry;
      entry.date = json.at("date");
      entry.machine = json.at("machine");
      entry.commit = json.at("commit");
      entry.row.bench = json.at("bench");
      entry.row.name = json.at("case");
      entry.row.gbps = json.at("gbps");
      entry.row.limit_gbps = json.at("limit_gbps");
      entry.row.ratio = json.at("ratio");
      for (const auto& [key, value] : json.items()) {
        if (Keys().contains(key)) continue;
        entry.row.settings[key] =
            value.is_number() ? absl::StrCat(value.get<double>()) : value.get<std::string>();
      }
      entries.push_back(std::move(entry));
    } catch (const nlohmann::json::exception&) {
      return InvalidArgumentError(
          path, ":", number,
          ": not a result with date, machine, commit, bench, case, gbps, limit_gbps and ratio; was "
          "the line cut off?");
    }
  }
  return entries;
}

std::string HistoryText(const std::vector<HistoryEntry>& entries) {
  std::string text;
  std::string machine;
  for (const auto& [place, cases] : ByCase(entries)) {
    if (place.first != machine) {
      machine = place.first;
      absl::StrAppend(&text, machine, "\n");
      absl::StrAppendFormat(&text, "%-36s %10s %9s %9s %8s  %s\n", "case", "last GB/s", "first",
                            "last", "change", "(of the machine's limit)");
    }
    for (const auto& [name, all] : cases) {
      const double first = all.front().row.ratio, last = all.back().row.ratio;
      absl::StrAppendFormat(&text, "%-36s %10.2f %9.3f %9.3f %+7.1f%%  %s to %s\n",
                            absl::StrCat(place.second, " ", name), all.back().row.gbps, first, last,
                            first > 0 ? 100 * (last / first - 1) : 0.0, all.front().date,
                            all.back().date);
    }
  }
  return text;
}

std::string HistoryPage(const std::vector<HistoryEntry>& entries) {
  const std::map<std::string, size_t> places = Places(entries);
  std::vector<std::string> days(places.size());
  for (const auto& [when, place] : places) days[place - 1] = when.substr(0, when.find(' '));
  std::vector<double> ticks;  // not so many that their texts meet
  const size_t every = 1 + places.size() / (kMostTicks + 1);
  for (size_t place = 1; place <= places.size(); place += every)
    ticks.push_back(static_cast<double>(place));
  std::string body;
  std::string machine;
  int number = 0;
  for (const auto& [place, cases] : ByCase(entries)) {
    if (place.first != machine) {
      machine = place.first;
      absl::StrAppend(&body, "<h2>", Escaped(machine), "</h2>\n");
    }
    XyPlot plot;
    plot.id = absl::StrCat("plot-", ++number);
    plot.title = place.second;
    plot.description = absl::StrCat("The speed of ", place.second,
                                    ", as a part of the machine's limit, from run to run");
    plot.x.label = "day";
    plot.x.ticks = ticks;
    plot.x.format = [&](double value) { return days[static_cast<size_t>(value) - 1]; };
    plot.y.label = "part of the machine's limit";
    plot.y.format = [](double value) { return absl::StrFormat("%.3g", value); };
    plot.y.zero = true;
    int index = 0;
    for (const auto& [name, all] : cases) {
      PlotSeries series;
      series.name = name;
      series.css_class = absl::StrCat("c", index % kSeriesColors);
      series.shape = (index++ / kSeriesColors) % Svg::kShapes;
      series.line = true;
      for (const HistoryEntry& entry : all) {
        const std::string when = absl::StrCat(entry.date, " ", entry.commit);
        series.points.push_back(
            {.x = static_cast<double>(places.at(when)),
             .y = entry.row.ratio,
             .tip = absl::StrFormat("%s, %s: %.2f GB/s, %.2f of %.2f", name, when, entry.row.gbps,
                                    entry.row.ratio, entry.row.limit_gbps)});
      }
      plot.series.push_back(std::move(series));
    }
    absl::StrAppend(&body, "<h3>", Escaped(place.second), "</h3><figure>", Draw(plot).Inline(),
                    "</figure>\n");
  }
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">",
                      "<title>psgd benchmarks</title><style>", kPageStyle, kDrawingStyle,
                      "</style></head><body><h1>psgd benchmarks</h1>\n", body, "<script>",
                      kPageScript, "</script></body></html>\n");
}

}  // namespace psgd
