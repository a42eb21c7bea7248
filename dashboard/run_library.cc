#include "dashboard/run_library.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/files.h"
#include "experiment/config/config_yaml.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/run_files.h"
#include "experiment/record/summary.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 4;  // depth of nested folders of runs
constexpr size_t kMostFile = size_t{1} << 20;
constexpr auto kSilent = std::chrono::seconds(20);  // a running run writes every second

std::string StampOf(const fs::path& path) {
  std::string stamp;
  for (const char* name : {"config.yaml", "metrics.jsonl", "summary.json"}) {
    std::error_code error;
    const auto time = fs::last_write_time(path / name, error);
    absl::StrAppend(&stamp, error ? 0 : time.time_since_epoch().count(), "/",
                    error ? 0 : fs::file_size(path / name, error), " ");
  }
  return stamp;
}

bool WrittenLately(const std::string& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  return !error && fs::file_time_type::clock::now() - time < kSilent;
}

// Describes the damage in the last lines; empty: none. Opening the run reads all lines.
std::string DamageAtTheEnd(const std::string& file) {
  constexpr size_t kTail = 4096;
  if (const absl::Status regular = CheckRegularFile(file); !regular.ok()) {
    return std::string(regular.message());
  }
  std::ifstream in(file, std::ios::binary);
  in.seekg(0, std::ios::end);
  const int64_t size = in.tellg();
  if (!in || size <= 0) return size == 0 ? "" : "metrics.jsonl cannot be read";
  const int64_t from = std::max<int64_t>(0, size - static_cast<int64_t>(kTail));
  in.seekg(from);
  std::string line;
  if (from > 0) std::getline(in, line);  // skips a partial line
  while (std::getline(in, line) && !in.eof()) {
    if (!Record::parse(line, nullptr, /*allow_exceptions=*/false).is_object()) {
      return "metrics.jsonl holds a line that is no record";
    }
  }
  return "";
}

void AddSummary(const std::string& file, Record* row) {
  const auto summary = ReadSummary(file);
  if (!summary.ok()) {
    (*row)["status"] = "broken";
    (*row)["note"] = std::string(summary.status().message());
    return;
  }
  const Record raw = Record::parse(ReadSmallFile(file, kMostFile).value_or(""), nullptr, false);
  for (const auto& [key, value] : raw.items()) {
    if (key != "codecs") (*row)[key] = value;
  }
  (*row)["note"] = summary->error;
}

void AddConfig(const std::string& file, Record* row) {
  const absl::Status regular = CheckRegularFile(file);
  const auto config = regular.ok() ? LoadConfig(file) : regular;
  if (!config.ok()) {
    (*row)["note"] = std::string(config.status().message());
    if ((*row)["status"] != "broken") (*row)["status"] = "damaged";
    return;
  }
  if (!row->contains("name")) (*row)["name"] = config->name();
  const ConsistencyConfig& consistency = config->consistency();
  (*row)["staleness_bound"] =
      consistency.staleness() < 0 ? Record("unbounded") : Record(consistency.staleness());
  for (const auto& [key, value] : {std::pair("workers", config->cluster().workers()),
                                   std::pair("shards", config->cluster().shards())}) {
    if (!row->contains(key)) (*row)[key] = value;
  }
}

}  // namespace

Record RunRow(const std::string& path, const std::string& id) {
  const RunDir dir(path);
  std::error_code error;
  Record row{{"id", id}, {"status", "broken"}, {"note", ""}};
  const bool metrics = fs::exists(dir.MetricsFile(), error);
  if (fs::exists(dir.SummaryFile(), error)) {
    AddSummary(dir.SummaryFile(), &row);
  } else if (metrics) {
    const bool goes_on = WrittenLately(dir.MetricsFile());
    row["status"] = goes_on ? "running" : "died";
    row["note"] =
        goes_on ? "" : "it has no summary: its server was killed, or the machine went down";
  } else {
    row["note"] = "it has neither metrics.jsonl nor summary.json";
  }
  const std::string damage = metrics ? DamageAtTheEnd(dir.MetricsFile()) : "";
  if (!damage.empty() && row["status"] != "broken") {
    row["status"] = "damaged";
    row["note"] = damage;
  }
  if (fs::exists(dir.ConfigFile(), error)) {
    AddConfig(dir.ConfigFile(), &row);
  } else if (row["status"] != "broken") {
    row["status"] = "damaged";
    row["note"] = "its config.yaml is missing";
  }
  // The row already names the run.
  row["note"] = absl::StrReplaceAll(row["note"].get<std::string>(), {{path + "/", ""}});
  return row;
}

bool RunLibrary::Scan() {
  std::map<std::string, Known> now;
  bool changed = false;
  for (const fs::path path : FindRunDirs(root_, kDeepest)) {
    const std::string id = path == fs::path(root_) ? path.filename().string()
                                                   : path.lexically_relative(root_).string();
    const auto known = runs_.find(id);
    // A run may fall silent without a change in its files.
    const bool may_die = known != runs_.end() && known->second.row["status"] == "running" &&
                         !WrittenLately(RunDir(path.string()).MetricsFile());
    std::string stamp = StampOf(path);
    if (known != runs_.end() && known->second.stamp == stamp && !may_die) {
      now[id] = std::move(known->second);
      continue;
    }
    changed = true;
    Known& run = now[id];
    run.row = RunRow(path.string(), id);
    run.row["changed"] = stamp;
    run.stamp = std::move(stamp);
  }
  changed = changed || now.size() != runs_.size();
  runs_ = std::move(now);
  if (!changed) return false;
  std::string rows;
  for (const auto& [id, run] : runs_)
    absl::StrAppend(&rows, rows.empty() ? "[" : ",", JsonText(run.row));
  rows_ = rows.empty() ? "[]" : rows + "]";
  return true;
}

absl::StatusOr<std::string> RunLibrary::Run(const std::string& id) const {
  const auto known = runs_.find(id);
  if (known == runs_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no run \"", id, "\" here; was it removed?"));
  }
  const bool is_root = id.find('/') == std::string::npos && !fs::exists(fs::path(root_) / id);
  const RunDir dir(is_root ? root_ : (fs::path(root_) / id).string());
  Record run = known->second.row;
  run["config"] = CheckRegularFile(dir.ConfigFile()).ok()
                      ? ReadSmallFile(dir.ConfigFile(), kMostFile).value_or("")
                      : "";
  run["dir"] = dir.path();
  RunHistory history({.progress = 600, .details = 60, .others = 200});
  auto records = ReadMetrics(dir.MetricsFile());
  if (!records.ok()) {
    run["note"] = absl::StrCat(run.value("note", ""), " ", std::string(records.status().message()));
  } else {
    for (Record& record : *records) history.Add(std::move(record));
  }
  return absl::StrCat("{\"run\":", JsonText(run), ",\"records\":", history.Json(), "}");
}

}  // namespace psgd
