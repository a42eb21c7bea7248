// The directory of one run: where everything that a run leaves behind has its place.
#pragma once

#include <ctime>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

struct RunDirOptions {
  std::string path;  // as given by --run-dir; empty: root/NAME-YYYYmmdd-HHMMSS
  std::string root = "runs";
  std::string name;     // of the run
  std::time_t now = 0;  // stamps the default path, in local time
  bool resume = false;  // path is a run's directory, to be continued
};

// Names of files and folders in a run directory. Immutable.
class RunDir {
 public:
  explicit RunDir(std::string path) : path_(std::move(path)) {}

  // Makes the directory, or takes up an empty one. One that holds files is refused unless resuming,
  // when it must hold a config.yaml and stays as it is. The directory is this process's while a
  // copy of the result lives: another that asks for it meanwhile is refused.
  static absl::StatusOr<RunDir> Create(const RunDirOptions& options);

  // An existing run's directory, this process's while a copy of the result lives; nothing is
  // written.
  static absl::StatusOr<RunDir> Take(const std::string& path);

  // Writes the resolved config: from now on it can be resumed.
  absl::Status SaveConfig(const std::string& yaml) const;

  // Removes what Create made, for a run that never began; not what was resumed.
  void Abandon();

  const std::string& path() const { return path_; }
  std::string ConfigFile() const { return File("config.yaml"); }
  std::string MetricsFile() const { return File("metrics.jsonl"); }
  std::string SummaryFile() const { return File("summary.json"); }
  std::string WeightsFile() const { return File("weights.safetensors"); }
  std::string TraceFile() const { return File("trace.json"); }
  std::string ServerDir() const { return File("server"); }
  std::string WorkerDir(int worker) const { return File("worker-" + std::to_string(worker)); }

 private:
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  std::string path_;
  bool fresh_ = false;
  std::shared_ptr<const void> hold_;
};

}  // namespace psgd
