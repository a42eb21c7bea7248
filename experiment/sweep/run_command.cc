#include "experiment/sweep/run_command.h"

#include <xxhash.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "experiment/config_yaml.h"
#include "experiment/program_dir.h"

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
    return argv;
  }
  PSGD_RETURN_IF_ERROR(WriteFileAtomically(dir.ConfigFile(run.id), FormatConfig(run.config)));
  argv.insert(argv.end(), {dir.ConfigFile(run.id), "--run-dir", dir.RunPath(run.id)});
  return argv;
}

int ThreadsOf(const PlannedRun& run, int cores) {
  if (run.launch.threads() > 0) return run.launch.threads();
  return std::max(1, cores / std::max(1, run.config.cluster().workers()));
}

absl::StatusOr<RunCommand> CommandOf(const SweepDir& dir, const PlannedRun& run, const Share& share,
                                     bool resume, int slot) {
  RunCommand command;
  PSGD_ASSIGN_OR_RETURN(command.argv,
                        PsRunCommand(dir, run, ThreadsOf(run, static_cast<int>(share.cores.size())),
                                     absl::StrJoin(share.gpus, ","), resume));
  if (run.launch.link() == "unlimited") return command;

  // Short, since interfaces have it in their names, and this sweep's own.
  const int workers = run.config.cluster().workers();
  const std::string network =
      absl::StrFormat("ps%04x%d", XXH3_64bits(dir.path().data(), dir.path().size()) & 0xFFFF, slot);
  PSGD_ASSIGN_OR_RETURN(command.hosts, LinkedHosts::Up(network, workers + 1, run.launch.link()));
  command.argv.insert(command.argv.end(), {"--bind", LinkedHosts::Address(1), "--insecure"});
  for (int worker = 0; worker < workers; ++worker) {
    command.argv.insert(command.argv.end(), {"--worker-prefix", command.hosts->Prefix(worker + 2)});
  }
  std::vector<std::string> prefix = absl::StrSplit(command.hosts->Prefix(1), ' ');
  PSGD_ASSIGN_OR_RETURN(prefix.front(), FoundProgram(prefix.front()));
  command.argv.insert(command.argv.begin(), prefix.begin(), prefix.end());
  return command;
}

}  // namespace psgd
