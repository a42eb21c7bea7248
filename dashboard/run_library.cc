#include "dashboard/run_library.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "compression/policy.h"
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

// What the end of metrics.jsonl tells. Opening the run reads all lines.
struct LastRecords {
  std::string damage;           // in the last lines; empty: none
  Record progress, evaluation;  // the last of each; null: none near the end
};

// The last whole line that holds such a record; null: none.
Record LastOf(absl::string_view kind, absl::string_view lines) {
  const std::string start = absl::StrCat("\n{\"kind\":\"", kind, "\"");
  const size_t at = lines.rfind(start);
  if (at == absl::string_view::npos) return {};
  const absl::string_view line = lines.substr(at + 1, lines.find('\n', at + 1) - at - 1);
  return Record::parse(line, nullptr, /*allow_exceptions=*/false);
}

constexpr int64_t kChecked = 4096;               // bytes at the end whose lines are all parsed
constexpr int64_t kSearched = int64_t{1} << 20;  // bytes in which the last figures of a run are

// Reads the last `most` bytes.
LastRecords ReadEnd(const std::string& file, int64_t most) {
  LastRecords last;
  if (const absl::Status regular = CheckRegularFile(file); !regular.ok()) {
    last.damage = std::string(regular.message());
    return last;
  }
  std::ifstream in(file, std::ios::binary);
  in.seekg(0, std::ios::end);
  const int64_t size = in.tellg();
  if (!in || size <= 0) {
    if (size != 0) last.damage = "metrics.jsonl cannot be read";
    return last;
  }
  in.seekg(std::max<int64_t>(0, size - most));
  std::string lines(static_cast<size_t>(std::min(size, most)), '\0');
  in.read(lines.data(), static_cast<std::streamsize>(lines.size()));
  if (size <= most) lines.insert(0, "\n");  // the first line is whole
  lines.resize(lines.rfind('\n') + 1);      // a torn last line may still grow
  last.progress = LastOf("progress", lines);
  last.evaluation = LastOf("evaluation", lines);
  const absl::string_view end =
      absl::string_view(lines).substr(lines.size() - std::min(lines.size(), size_t{kChecked}));
  const std::vector<absl::string_view> checked = absl::StrSplit(end, '\n');
  // The first may be a part of a line, and nothing follows the last line break.
  for (size_t i = 1; i + 1 < checked.size(); ++i) {
    if (Record::parse(checked[i], nullptr, /*allow_exceptions=*/false).is_object()) continue;
    last.damage = "metrics.jsonl holds a line that is no record";
  }
  return last;
}

// What a summary would say, of a run that has none yet.
void AddRecords(const LastRecords& last, Record* row) {
  const auto copy = [row](const Record& from, const char* field, const char* to) {
    if (from.is_object() && from.contains(field)) (*row)[to] = from[field];
  };
  for (const char* field : {"samples_per_second", "bytes_pushed", "bytes_pushed_dense"}) {
    copy(last.progress, field, field);
  }
  copy(last.progress, "epoch", "epochs");
  copy(last.progress, "seconds", "wall_seconds");
  copy(last.evaluation, "accuracy", "test_accuracy");
  copy(last.evaluation, "loss", "test_loss");
  copy(last.evaluation, "measures", "test_measures");
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
  if (!row->contains("codec")) (*row)["codec"] = PushCodecName(config->compression());
}

}  // namespace

Record RunRow(const std::string& path, const std::string& id) {
  const RunDir dir(path);
  std::error_code error;
  Record row{{"id", id}, {"status", "broken"}, {"note", ""}};
  const bool metrics = fs::exists(dir.MetricsFile(), error);
  const bool ended = fs::exists(dir.SummaryFile(), error);
  // The summary has the figures of a run that ended.
  const LastRecords last =
      metrics ? ReadEnd(dir.MetricsFile(), ended ? kChecked : kSearched) : LastRecords();
  if (ended) {
    AddSummary(dir.SummaryFile(), &row);
  } else if (metrics) {
    const bool goes_on = WrittenLately(dir.MetricsFile());
    row["status"] = goes_on ? "running" : "died";
    row["note"] =
        goes_on ? "" : "it has no summary: its server was killed, or the machine went down";
    AddRecords(last, &row);
  } else {
    row["note"] = "it has neither metrics.jsonl nor summary.json";
  }
  if (!last.damage.empty() && row["status"] != "broken") {
    row["status"] = "damaged";
    row["note"] = last.damage;
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
    return NotFoundError("there is no run \"", id, "\" here; was it removed?");
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
