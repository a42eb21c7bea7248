#include "experiment/sweep/local_places.h"

#include <signal.h>
#include <xxhash.h>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "experiment/launch/program_dir.h"
#include "experiment/sweep/run_command.h"

namespace psgd {

absl::StatusOr<RunCommand> LocalPlaces::Command(const PlannedRun& run, size_t slot, bool resume) {
  RunCommand command;
  command.cores = shares_[slot].cores;
  PSGD_ASSIGN_OR_RETURN(command.argv, PsRunCommand(dir_, run, shares_[slot], resume));
  if (run.launch.link() == "unlimited") return command;

  // The name is short, because interface names contain it, and unique to this sweep.
  const int workers = run.config.cluster().workers();
  const std::string network = absl::StrFormat(
      "ps%04x%d", XXH3_64bits(dir_.path().data(), dir_.path().size()) & 0xFFFF, slot);
  PSGD_ASSIGN_OR_RETURN(command.hosts, LinkedHosts::Up(network, workers + 1, run.launch.link()));
  std::vector<std::string> options = {"--bind", LinkedHosts::Address(1), "--insecure"};
  for (int worker = 0; worker < workers; ++worker) {
    options.insert(options.end(), {"--worker-prefix", command.hosts->Prefix(worker + 2)});
  }
  // A command for the workers may stand at the end.
  command.argv.insert(command.argv.begin() + 1, options.begin(), options.end());
  std::vector<std::string> prefix = absl::StrSplit(command.hosts->Prefix(1), ' ');
  PSGD_ASSIGN_OR_RETURN(prefix.front(), FoundProgram(prefix.front()));
  command.argv.insert(command.argv.begin(), prefix.begin(), prefix.end());
  return command;
}

void LocalPlaces::Stop(const PlannedRun&, ChildProcess& child, bool) {
  child.Signal(SIGINT);  // ps-run ends at once on the second SIGINT
}

}  // namespace psgd
