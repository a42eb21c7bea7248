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

absl::StatusOr<RunCommand> CommandOf(const SweepDir& dir, const PlannedRun& run, const Share& share,
                                     bool resume, int slot) {
  RunCommand command;
  PSGD_ASSIGN_OR_RETURN(const std::string program, SiblingProgram("ps-run"));
  const int workers = std::max(1, run.config.cluster().workers());
  const int threads = run.launch.threads() > 0
                          ? run.launch.threads()
                          : std::max(1, static_cast<int>(share.cores.size()) / workers);
  command.argv = {program, "--quiet", "--json", "--threads", absl::StrCat(threads), "--precision",
                  absl::AsciiStrToLower(SweepLaunch::Precision_Name(run.launch.precision()))};
  if (!share.gpus.empty()) {
    command.argv.insert(command.argv.end(),
                        {"--gpu", absl::StrJoin(share.gpus, ","), "--workers", absl::StrCat(workers)});
  }
  if (resume) {
    command.argv.insert(command.argv.end(), {"--resume", dir.RunPath(run.id)});
  } else {
    PSGD_RETURN_IF_ERROR(WriteFileAtomically(dir.ConfigFile(run.id), FormatConfig(run.config)));
    command.argv.insert(command.argv.end(), {dir.ConfigFile(run.id), "--run-dir", dir.RunPath(run.id)});
  }
  if (run.launch.link() == "unlimited") return command;

  // Short, since interfaces have it in their names, and this sweep's own.
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
