#include "experiment/sweep/run_command.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files.h"
#include "experiment/config/config_yaml.h"
#include "experiment/launch/program_dir.h"

namespace psgd {

absl::StatusOr<std::vector<std::string>> PsRunCommand(const SweepDir& dir, const PlannedRun& run,
                                                      int threads, const std::string& gpus,
                                                      bool resume) {
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-run"));
  std::vector<std::string> argv = {
      program,
      "--quiet",
      "--json",
      "--threads",
      absl::StrCat(threads),
      "--precision",
      absl::AsciiStrToLower(SweepLaunch::Precision_Name(run.launch.precision()))};
  if (!gpus.empty()) {
    argv.insert(argv.end(),
                {"--gpu", gpus, "--workers", absl::StrCat(run.config.cluster().workers())});
  }
  if (resume) {
    argv.insert(argv.end(), {"--resume", dir.RunPath(run.id)});
  } else {
    PSGD_RETURN_IF_ERROR(WriteFileAtomically(dir.ConfigFile(run.id), FormatConfig(run.config)));
    argv.insert(argv.end(), {dir.ConfigFile(run.id), "--run-dir", dir.RunPath(run.id)});
  }
  if (!run.launch.command().empty()) {
    argv.push_back("--");
    argv.insert(argv.end(), run.launch.command().begin(), run.launch.command().end());
  }
  return argv;
}

absl::StatusOr<std::vector<std::string>> PsRunCommand(const SweepDir& dir, const PlannedRun& run,
                                                      const Share& share, bool resume) {
  return PsRunCommand(dir, run, ThreadsOf(run, static_cast<int>(share.cores.size())),
                      absl::StrJoin(share.gpus, ","), resume);
}

int ThreadsOf(const PlannedRun& run, int cores) {
  if (run.launch.threads() > 0) return run.launch.threads();
  return std::max(1, cores / std::max(1, run.config.cluster().workers()));
}

}  // namespace psgd
