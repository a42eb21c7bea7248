// The directory of one run, which holds all files that the run leaves.
#pragma once

#include <ctime>
#include <memory>
#include <string>

#include "common/status.h"

namespace psgd {

struct RunDirOptions {
  std::string path;  // value of --run-dir; empty: root/NAME-YYYYmmdd-HHMMSS
  std::string root = "runs";
  std::string name;     // of the run
  std::time_t now = 0;  // stamps the default path, in local time
  bool resume = false;  // `path` is the directory of a run to continue
};

// Names the files and folders of a run directory. Immutable.
class RunDir {
 public:
  explicit RunDir(std::string path) : path_(std::move(path)) {}

  // Creates the directory, or takes an empty one. A directory with files is refused, unless
  // `resume` is set; then it must hold a config.yaml and stays as it is. This process holds the
  // directory as long as a copy of the result lives; other processes are refused.
  static absl::StatusOr<RunDir> Create(const RunDirOptions& options);

  // Holds an existing run's directory as long as a copy of the result lives. Writes nothing.
  static absl::StatusOr<RunDir> Take(const std::string& path);

  // Writes the resolved config. After that the run can be resumed.
  absl::Status SaveConfig(const std::string& yaml) const;

  // Removes what a run that never began left, but not the directory of a resumed run, and no
  // directory that was there before.
  void Abandon();

  // Whether Create made the directory.
  bool is_new() const { return is_new_; }

  const std::string& path() const { return path_; }
  std::string ConfigFile() const { return File("config.yaml"); }
  std::string MetricsFile() const { return File("metrics.jsonl"); }
  std::string SummaryFile() const { return File("summary.json"); }
  std::string WeightsFile() const { return File("weights.safetensors"); }
  std::string TraceFile() const { return File("trace.json"); }
  std::string ServerDir() const { return File("server"); }
  // Names the folder of the server that took over from the one whose directory this is, and writes
  // the run's results here ("server-3", or a path elsewhere). None: no other server did.
  std::string LeaderFile() const { return ServerDir() + "/leader"; }
  std::string WorkerDir(int worker) const { return File("worker-" + std::to_string(worker)); }

 private:
  std::string File(const std::string& name) const { return path_ + "/" + name; }

  std::string path_;
  bool fresh_ = false, is_new_ = false;
  std::shared_ptr<const void> hold_;
};

}  // namespace psgd
