#include "experiment/sweep/sweep.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "experiment/config/config_yaml.h"
#include "experiment/launch/program_dir.h"
#include "experiment/launch/terminal.h"
#include "experiment/plan/asha.h"
#include "experiment/plan/expand.h"
#include "experiment/plan/resources.h"
#include "experiment/plan/sweep_dir.h"
#include "experiment/plan/sweep_yaml.h"
#include "experiment/record/readable.h"
#include "experiment/report/groups.h"
#include "experiment/report/table.h"
#include "experiment/report/write_report.h"
#include "experiment/sweep/estimate.h"
#include "experiment/sweep/linked_hosts.h"
#include "experiment/sweep/local_places.h"
#include "experiment/sweep/rungs.h"
#include "experiment/sweep/slurm_places.h"
#include "experiment/sweep/ssh_places.h"
#include "experiment/sweep/sweep_json.h"
#include "experiment/sweep/sweep_runner.h"
#include "experiment/sweep/trial.h"
#include "train/gpu_devices.h"

namespace psgd {
namespace {

constexpr char kHere[] = "this machine";

struct Prepared {
  Sweep sweep;
  RunPlan plan;
  std::string dir;
  ShareOptions shares;              // of this machine; for ssh, of each host, without its cores
  std::vector<std::string> shared;  // resources that parallel runs share
};

absl::StatusOr<ShareOptions> Resources(const SweepOptions& options, const Sweep& sweep) {
  ShareOptions shares;
  shares.cores = OwnCores();
  shares.parallel = options.parallel;
  shares.cores_per_run = sweep.resources().cores();
  shares.gpus_per_run = sweep.resources().gpus();
  if (options.gpu.empty()) {
    if (shares.gpus_per_run == 0) return shares;
    return InvalidArgumentError(options.file, ": resources.gpus asks for ", shares.gpus_per_run,
                                " a run; say which with --gpu, as --gpu 0-7");
  }
  PSGD_ASSIGN_OR_RETURN(shares.gpus, ParseDeviceList(options.gpu));
  shares.gpus_per_run = std::max(1, shares.gpus_per_run);
  return shares;
}

// Slurm assigns resources itself. ssh hosts report their cores later.
absl::Status LookAtResources(const SweepOptions& options, Prepared* prepared) {
  if (options.launcher == "slurm") return absl::OkStatus();
  PSGD_ASSIGN_OR_RETURN(prepared->shares, Resources(options, prepared->sweep));
  if (options.launcher == "ssh") return absl::OkStatus();
  PSGD_RETURN_IF_ERROR(Annotate(CheckShares(prepared->shares, kHere), options.file));
  prepared->shared = SharedNotes(prepared->shares, kHere);
  std::vector<std::string>& notes = prepared->plan.notes;
  notes.insert(notes.end(), prepared->shared.begin(), prepared->shared.end());
  return absl::OkStatus();
}

// The directory's plan may belong to another sweep with the same name.
bool IsOfAnother(const SweepPlan& before, const RunPlan& plan) {
  return !before.runs.empty() && std::ranges::none_of(before.runs, [&](const PlanEntry& entry) {
    return std::ranges::find(plan.runs, entry.id, &PlannedRun::id) != plan.runs.end();
  });
}

std::string NoteOfAnother(const SweepPlan& before, const std::string& dir) {
  return absl::StrCat(
      dir, " has the plan and the report of another sweep, \"", before.name, "\"",
      before.question.empty() ? "" : absl::StrCat(" (", before.question, ")"), ", none of whose ",
      before.runs.size(), before.runs.size() == 1 ? " run" : " runs",
      " is one of these: its runs stay there, its plan and report are replaced; another --dir, or "
      "another name: in the sweep's file, keeps the two apart");
}

absl::StatusOr<Prepared> Prepare(const SweepOptions& options) {
  Prepared prepared;
  PSGD_ASSIGN_OR_RETURN(prepared.sweep, LoadSweep(options.file));
  if (prepared.sweep.name().front() == '.' || prepared.sweep.name().front() == '-') {
    return InvalidArgumentError(options.file, ": name: \"", prepared.sweep.name(),
                                "\" begins with a dot or a dash; it names a folder");
  }
  PSGD_ASSIGN_OR_RETURN(Config base, BaseConfig(prepared.sweep, options.file));
  for (const std::string& assignment : options.set)
    PSGD_RETURN_IF_ERROR(ApplySet(assignment, &base));
  auto plan = ExpandSweep(prepared.sweep, base);
  if (!plan.ok()) return Annotate(plan.status(), options.file);
  prepared.plan = *std::move(plan);
  if (prepared.sweep.has_asha()) {
    PSGD_RETURN_IF_ERROR(
        Annotate(CheckAsha(prepared.sweep.asha(), prepared.plan.runs), options.file));
  }
  for (const PlannedRun& run : prepared.plan.runs) {
    PSGD_RETURN_IF_ERROR(Annotate(CheckLink(run.launch.link()), options.file));
    if (run.launch.command().empty()) continue;
    if (run.launch.precision() != SweepLaunch::FP32) {
      return InvalidArgumentError(
          options.file,
          ": launch.precision is for ps-worker: launch.command chooses its precision "
          "itself; leave it out");
    }
    if (!options.gpu.empty() && options.launcher == "slurm") {
      return absl::InvalidArgumentError(
          "--gpu with --launcher slurm is for ps-worker: Slurm says which GPUs launch.command "
          "sees; "
          "leave --gpu out, and say --slurm-workers='--gpus-per-task=1'");
    }
  }
  prepared.dir = options.dir.empty() ? absl::StrCat("runs/", prepared.sweep.name()) : options.dir;
  while (prepared.dir.size() > 1 && prepared.dir.back() == '/') prepared.dir.pop_back();
  PSGD_RETURN_IF_ERROR(LookAtResources(options, &prepared));
  if (const auto before = SweepDir(prepared.dir).ReadPlan();
      before.ok() && IsOfAnother(*before, prepared.plan)) {
    prepared.plan.notes.push_back(NoteOfAnother(*before, prepared.dir));
  }
  // Remote hosts start in another folder.
  if (options.launcher == "ssh") prepared.dir = std::filesystem::absolute(prepared.dir);
  return prepared;
}

absl::StatusOr<std::string> DryRun(const SweepOptions& options, Prepared prepared) {
  PSGD_ASSIGN_OR_RETURN(SweepEstimate estimate, EstimateSweep(prepared.plan.runs, prepared.dir));
  std::ranges::copy(estimate.notes, std::back_inserter(prepared.plan.notes));
  estimate.stops_early = prepared.sweep.has_asha();
  // This machine cannot predict the speed of others.
  if (estimate.seconds < 0 && estimate.untold == 0 && options.launcher == "local") {
    EstimateByTrial(prepared.plan.runs, Shares(prepared.shares).front(), options.stops, &estimate);
  }
  if (options.json) {
    const Record json{
        {"runs", estimate.runs},
        {"done", estimate.done},
        {"samples", estimate.samples},
        {"steps", estimate.steps},
        {"dense_bytes", estimate.dense_bytes},
        {"tried", estimate.tried},
        {"seconds", estimate.seconds < 0 ? Record(nullptr) : Record(estimate.seconds)},
        {"seconds_at_best",
         estimate.seconds_at_best < 0 ? Record(nullptr) : Record(estimate.seconds_at_best)}};
    return PlanJson(prepared.sweep.name(), prepared.plan, json).dump(2) + "\n";
  }
  TextTable table({"id", "configuration", "seed", "compared with"});
  for (const PlannedRun& run : prepared.plan.runs) {
    table.Add({run.id, run.label, absl::StrCat(run.config.seed()),
               run.twin              ? "(twin)"
               : run.twin_id.empty() ? "-"
                                     : run.twin_id});
  }
  return absl::StrCat(
      prepared.sweep.question(), prepared.sweep.question().empty() ? "" : "\n\n", table.Text(),
      "\n", EstimateText(estimate, options.parallel),
      absl::StrJoin(prepared.plan.notes, "", [](std::string* out, const std::string& note) {
        absl::StrAppend(out, "note: ", note, "\n");
      }));
}

absl::Status CheckUnlimitedLinks(const SweepOptions& options, const Prepared& prepared) {
  for (const PlannedRun& run : prepared.plan.runs) {
    if (run.launch.link() == "unlimited") continue;
    return InvalidArgumentError(
        options.file,
        ": launch.link limits links of this machine; it has no meaning with --launcher ",
        options.launcher);
  }
  return absl::OkStatus();
}

// Cores and GPUs are assigned here, by Slurm, or per ssh host.
absl::StatusOr<std::unique_ptr<RunPlaces>> Places(const SweepOptions& options,
                                                  const Prepared& prepared) {
  const SweepDir dir(prepared.dir);
  if (options.launcher == "local") {
    return std::make_unique<LocalPlaces>(dir, Shares(prepared.shares));
  }
  PSGD_RETURN_IF_ERROR(CheckUnlimitedLinks(options, prepared));
  if (options.launcher == "slurm") {
    return std::make_unique<SlurmPlaces>(
        dir,
        SlurmOptions{options.parallel, std::max(1, prepared.sweep.resources().cores()),
                     absl::StrSplit(options.slurm_server, ' ', absl::SkipEmpty()),
                     absl::StrSplit(options.slurm_workers, ' ', absl::SkipEmpty()), options.gpu});
  }
  SshOptions ssh;
  PSGD_ASSIGN_OR_RETURN(ssh.hosts, ParseHosts(options.hosts, options.hosts_file));
  ssh.command = absl::StrSplit(options.ssh, ' ', absl::SkipEmpty());
  if (ssh.command.empty()) return absl::InvalidArgumentError("--ssh: say a command, as ssh");
  PSGD_ASSIGN_OR_RETURN(ssh.command.front(), FoundProgram(ssh.command.front()));
  ssh.of_host = prepared.shares;
  return std::make_unique<SshPlaces>(dir, std::move(ssh));
}

// Two sweeps in one directory would start the same runs twice.
absl::StatusOr<std::unique_ptr<HeldLock>> TakeDir(const SweepDir& dir) {
  PSGD_RETURN_IF_ERROR(dir.Make());
  PSGD_ASSIGN_OR_RETURN(std::unique_ptr<HeldLock> lock, HeldLock::Try(dir.LockFile()));
  if (lock != nullptr) return lock;
  return FailedPreconditionError("another ps-sweep works in ", dir.path(),
                                 "; wait until it has ended, or choose another --dir");
}

// Runs that asha compares by a metric are reported by it.
std::string MetricOfReport(const Sweep& sweep) {
  if (!sweep.has_asha() || sweep.asha().metric() == SweepAsha::LOSS) return "";
  return MetricOf(sweep.asha());
}

absl::StatusOr<std::string> Results(const SweepOptions& options, const Prepared& prepared) {
  const std::string& dir = prepared.dir;
  std::string metric = MetricOfReport(prepared.sweep);
  absl::StatusOr<ReportRuns> read = ReadReportRuns(dir, metric);
  if (!read.ok() && !metric.empty()) {
    // No run measured it: the report compares by what there is.
    metric.clear();
    read = ReadReportRuns(dir, metric);
  }
  PSGD_ASSIGN_OR_RETURN(const ReportRuns report, std::move(read));
  const std::vector<ReportGroup> groups = GroupRuns(report);
  PSGD_ASSIGN_OR_RETURN(const WrittenReport written, WriteReport({.dir = dir, .metric = metric}));
  if (options.json) return SweepJson(report, groups, dir).dump(2) + "\n";
  // Output to a file has no limit of width.
  const size_t width =
      isatty(STDOUT_FILENO) == 1 ? static_cast<size_t>(TerminalWidth(STDOUT_FILENO)) : SIZE_MAX;
  return absl::StrCat("\n", TableText(TableOf(report, groups), width),
                      "\nreport: ", written.files.front(), "\n");
}

SweepResult Failed(const absl::Status& status) { return {"", status}; }

}  // namespace

SweepResult RunSweep(const SweepOptions& options) {
  const absl::StatusOr<Prepared> prepared = Prepare(options);
  if (!prepared.ok()) return Failed(prepared.status());
  if (options.dry_run) {
    const auto text = DryRun(options, *prepared);
    return text.ok() ? SweepResult{*text, absl::OkStatus()} : Failed(text.status());
  }
  const auto places = Places(options, *prepared);
  if (!places.ok()) return Failed(places.status());
  // Errors in data or networks are reported now, not after hours.
  const auto estimate = EstimateSweep(prepared->plan.runs, prepared->dir);
  if (!estimate.ok()) return Failed(estimate.status());
  const SweepDir dir(prepared->dir);
  const auto lock = TakeDir(dir);
  if (!lock.ok()) return Failed(lock.status());
  SweepPlan plan = PlanOf(prepared->sweep, prepared->plan);
  if (const auto before = dir.ReadPlan(); before.ok() && !IsOfAnother(*before, prepared->plan))
    plan.shared = before->shared;
  for (const std::string& note : prepared->shared) {
    const bool told = std::count(plan.shared.begin(), plan.shared.end(), note) > 0;
    if (!told && estimate->done < estimate->runs) plan.shared.push_back(note);
  }
  absl::Status status = dir.WritePlan(plan);
  const auto text = ReadSmallFile(options.file, size_t{1} << 20);
  if (status.ok() && text.ok()) status = WriteFileAtomically(dir.SweepFile(), *text);
  if (!status.ok()) return Failed(status);

  SweepRunnerOptions runner;
  runner.dir = prepared->dir;
  runner.retry_failed = options.retry_failed;
  if (prepared->sweep.has_asha()) runner.asha = prepared->sweep.asha();
  runner.notes = prepared->plan.notes;
  std::ranges::copy(estimate->notes, std::back_inserter(runner.notes));
  runner.stops = options.stops;
  runner.display = {STDERR_FILENO, DescribeTerminal(STDERR_FILENO), options.quiet,
                    prepared->sweep.name()};
  SweepResult result;
  result.status = SweepRunner(std::move(runner), prepared->plan.runs, places->get()).Run();
  const auto results = Results(options, *prepared);
  if (results.ok()) result.output = *results;
  if (result.status.ok()) result.status = results.status();
  return result;
}

}  // namespace psgd
