#include "simulate/prediction.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/units.h"
#include "experiment/record/readable.h"
#include "experiment/record/records.h"

namespace psgd::sim {
namespace {

std::string InMilliseconds(double seconds) { return absl::StrFormat("%.3g", seconds * 1e3); }

// Every number of it by its name, for machines.
Record RecordOf(const Prediction& p) {
  return {{"name", p.name},
          {"workers", p.workers},
          {"shards", p.shards},
          {"servers_own", p.own.servers},
          {"share_own", p.own.most},
          {"servers_beside", p.beside.servers},
          {"share_beside", p.beside.most},
          {"batch", p.batch},
          {"samples_per_second", p.samples_per_second},
          {"run_seconds", p.run_seconds},
          {"run_samples_per_second", p.run_samples_per_second},
          {"seconds_step", p.step},
          {"seconds_compute", p.compute},
          {"seconds_encode", p.encode},
          {"seconds_wait", p.wait},
          {"bytes_pushed", p.bytes_pushed},
          {"bytes_pulled", p.bytes_pulled},
          {"bytes_pushed_a_step", p.bytes_pushed_a_step},
          {"bytes_pulled_a_step", p.bytes_pulled_a_step},
          {"staleness_mean", p.pull_staleness.Mean()},
          {"staleness_p99", p.pull_staleness.Quantile(0.99)},
          {"staleness_max", p.pull_staleness.max()},
          {"push_staleness_mean", p.push_staleness.Mean()},
          {"push_staleness_p99", p.push_staleness.Quantile(0.99)},
          {"push_staleness_max", p.push_staleness.max()},
          {"bound_by", BoundBy(p)},
          {"shard_busy", p.shard_busy},
          {"processors", p.processors},
          {"server_link_in", p.server_link_in},
          {"server_link_out", p.server_link_out},
          {"worker_link_in", p.worker_link_in},
          {"worker_link_out", p.worker_link_out},
          {"deaths", p.deaths},
          {"resent", p.resent},
          {"clocks", p.clocks},
          {"simulated_shards", p.simulated_shards},
          {"simulated_seconds", p.simulated_seconds}};
}

std::string ShareText(const HeldShares& held) {
  const std::string least = absl::StrFormat("%.1f", 100 * held.least),
                    most = absl::StrFormat("%.1f", 100 * held.most);
  return least == most ? most + " %" : absl::StrCat(least, " to ", most, " %");
}

// As ps-ctl status tells it.
std::string ServersTable(const std::vector<Prediction>& predictions) {
  TextTable table({"", "workers", "servers", "beside", "share of each"});
  for (const Prediction& p : predictions) {
    if (p.beside.servers == 0) continue;
    const auto add = [&](const HeldShares& held, const char* beside) {
      if (held.servers == 0) return;
      table.Add(
          {p.name, absl::StrCat(p.workers), absl::StrCat(held.servers), beside, ShareText(held)});
    };
    add(p.own, "-");
    add(p.beside, "a worker");
  }
  return table.empty() ? "" : absl::StrCat("\nservers\n", table.Text());
}

}  // namespace

std::string BoundBy(const Prediction& p) {
  // What is busy nearly all the time; else the workers' own work, or waiting for each other and on
  // the way.
  constexpr double kBusy = 0.85;
  std::vector<std::pair<double, const char*>> parts = {
      {p.server_link_in, "server link in"}, {p.server_link_out, "server link out"},
      {p.worker_link_in, "worker link in"}, {p.worker_link_out, "worker link out"},
      {p.shard_busy, "a shard's thread"},   {p.processors, "processors"}};
  const auto busiest = std::ranges::max_element(
      parts, [](const auto& a, const auto& b) { return a.first < b.first; });
  if (busiest->first >= kBusy) return busiest->second;
  if (p.compute + p.encode >= p.wait) return "computing";
  // Synchronous workers push together and pull together: each way of a link is idle half of the
  // time.
  constexpr double kTurns = 0.6;
  const double server = p.server_link_in + p.server_link_out,
               worker = p.worker_link_in + p.worker_link_out;
  const double most = std::max({server, worker, p.shard_busy, p.processors});
  if (most < kTurns) return "waiting";
  if (most == server) return "server links";
  if (most == worker) return "worker links";
  return most == p.shard_busy ? "a shard's thread" : "processors";
}

std::string PredictionTable(const std::vector<Prediction>& predictions) {
  TextTable table({"", "workers", "batch", "samples/s", "speed-up", "step ms", "compute", "encode",
                   "wait", "pushed/step", "pulled/step", "staleness", "p99", "bound by"});
  const Prediction* first = nullptr;
  for (const Prediction& p : predictions) {
    if (first == nullptr || first->name != p.name) first = &p;
    // One alone has nothing to be faster than.
    const auto of_curve = std::ranges::count_if(
        predictions, [&](const Prediction& other) { return other.name == p.name; });
    const bool has_base = of_curve > 1 && first->samples_per_second > 0;
    table.Add(
        {p.name, absl::StrCat(p.workers), absl::StrCat(p.batch),
         ReadableCount(p.samples_per_second),
         has_base ? absl::StrFormat("%.2f", p.samples_per_second / first->samples_per_second) : "-",
         InMilliseconds(p.step), InMilliseconds(p.compute), InMilliseconds(p.encode),
         InMilliseconds(p.wait), HumanBytes(p.bytes_pushed_a_step),
         HumanBytes(p.bytes_pulled_a_step), absl::StrFormat("%.2f", p.pull_staleness.Mean()),
         absl::StrCat(p.pull_staleness.Quantile(0.99)), BoundBy(p)});
  }
  if (table.empty()) return "";
  return absl::StrCat(table.Text(),
                      "samples/s are those of a run under way. What --calibrate compares (\"the "
                      "model gives\"), and "
                      "summary.json has, are a whole run's, with its start and evaluations.\n",
                      ServersTable(predictions));
}

std::string PredictionJson(const std::vector<Prediction>& predictions) {
  std::string text;
  for (const Prediction& prediction : predictions)
    absl::StrAppend(&text, RecordOf(prediction).dump(), "\n");
  return text;
}

std::string PredictionCsv(const std::vector<Prediction>& predictions) {
  std::string text;
  for (const Prediction& prediction : predictions) {
    const Record record = RecordOf(prediction);
    std::vector<std::string> names, values;
    for (const auto& [name, value] : record.items()) {
      names.push_back(name);
      values.push_back(
          value.is_string()
              ? absl::StrCat("\"", absl::StrReplaceAll(value.get<std::string>(), {{"\"", "\"\""}}),
                             "\"")
              : value.dump());
    }
    if (text.empty()) text = absl::StrJoin(names, ",") + "\n";
    absl::StrAppend(&text, absl::StrJoin(values, ","), "\n");
  }
  return text;
}

}  // namespace psgd::sim
