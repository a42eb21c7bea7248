#include "experiment/sweep/slurm_places.h"

#include "absl/strings/str_cat.h"
#include "experiment/launch/program_dir.h"
#include "experiment/sweep/run_command.h"

namespace psgd {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);

// Runs a Slurm command and returns its output.
absl::StatusOr<std::string> Ask(std::vector<std::string> argv) {
  PSGD_ASSIGN_OR_RETURN(argv.front(), FoundProgram(argv.front()));
  ChildOptions child;
  child.name = argv.front();
  child.argv = std::move(argv);
  PSGD_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> process,
                        ChildProcess::Start(std::move(child)));
  if (!process->WaitEnded(kPatience)) {
    return UnavailableError(process->name(), " does not answer; is slurmctld up?");
  }
  if (process->exit_code() != 0) {
    return UnavailableError(process->name(), " ", process->HowItEnded(), ": ",
                            process->StderrTail());
  }
  return process->ReadLine(Duration::zero()).value_or("");
}

std::string JobName(const PlannedRun& run) { return absl::StrCat("psgd-", run.id); }

}  // namespace

absl::StatusOr<bool> SlurmPlaces::StillRuns(const PlannedRun& run) {
  PSGD_ASSIGN_OR_RETURN(const std::string job, Ask({"squeue", "--me", "--noheader", "--format=%i",
                                                    "--name", JobName(run)}));
  return !job.empty();
}

void SlurmPlaces::Stop(const PlannedRun& run, ChildProcess&, bool at_once) {
  const std::string name = JobName(run);
  // Errors are ignored, because the job is checked again.
  if (at_once) {
    (void)Ask({"scancel", "--me", "--name", name});
    return;
  }
  (void)Ask({"scancel", "--me", "--state=PENDING", "--name", name});
  (void)Ask({"scancel", "--me", "--batch", "--signal=INT", "--name", name});
}

absl::StatusOr<RunCommand> SlurmPlaces::Command(const PlannedRun& run, size_t, bool resume) {
  RunCommand command;
  PSGD_ASSIGN_OR_RETURN(const std::string sbatch, FoundProgram("sbatch"));
  PSGD_ASSIGN_OR_RETURN(const std::string script, ShippedFile("deploy/slurm/run.sbatch"));
  const int workers = run.config.cluster().workers();
  const int threads = ThreadsOf(run, options_.cores);
  // `sbatch --wait` ends when the job ends.
  command.argv = {sbatch,       "--wait",
                  "--quiet",    "--job-name",
                  JobName(run), "--open-mode=append",
                  "--output",   dir_.LogFile(run.id),
                  "--ntasks=1"};
  // Shards that are as many as cores ("auto") have no say in the number of cores.
  if (const int shards = run.config.cluster().shards(); shards > 0)
    command.argv.push_back(absl::StrCat("--cpus-per-task=", shards));
  command.argv.insert(command.argv.end(), options_.server.begin(), options_.server.end());
  command.argv.insert(command.argv.end(), {":", absl::StrCat("--ntasks=", workers),
                                           absl::StrCat("--cpus-per-task=", threads)});
  command.argv.insert(command.argv.end(), options_.workers.begin(), options_.workers.end());
  command.argv.push_back(script);
  PSGD_ASSIGN_OR_RETURN(const std::vector<std::string> ps_run,
                        PsRunCommand(dir_, run, threads, options_.gpus, resume));
  command.argv.insert(command.argv.end(), ps_run.begin(), ps_run.end());
  return command;
}

}  // namespace psgd
