// ps-sweep: many runs, and a report of what came of them.
#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/command_line.h"
#include "apps/exit_code.h"
#include "apps/stop_signals.h"
#include "experiment/report/write_report.h"
#include "experiment/sweep/sweep.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-sweep configs/sweeps/quick.yaml                      # codec x staleness, a few minutes
  ps-sweep configs/sweeps/quick.yaml --dry-run            # the runs, and what they will cost
  ps-sweep configs/sweeps/quick.yaml --parallel 2 --set train.epochs=1
  ps-sweep configs/sweeps/quick.yaml                      # again: goes on where it was stopped or killed
  ps-sweep configs/sweeps/quick.yaml --retry-failed
  ps-sweep configs/sweeps/batch_size.yaml --gpu 0-7 --parallel 8 --dir /scratch/batch
  ps-sweep configs/sweeps/shards.yaml --launcher slurm --parallel 20 --slurm-server=--partition=cpu
  ps-sweep report runs/quick                              # writes runs/quick/report.html
  ps-sweep report runs --markdown                         # of any folder of run directories
)";

constexpr char kReportExamples[] = R"(Examples:
  ps-sweep report runs/quick
  ps-sweep report runs/quick --out quick.html --svg figures
  ps-sweep report runs --markdown > table.md
  ps-sweep report runs/quick --target 0.9                 # time to 90 %
)";

void AddSweepOptions(CLI::App& app, SweepOptions* options) {
  app.add_option("sweep", options->file, "YAML file that says what to compare")->type_name("SWEEP");
  app.add_option("--dir", options->dir, "Where the sweep leaves its files; default: runs/NAME")
      ->type_name("DIR");
  app.add_flag("--dry-run", options->dry_run,
               "Show the runs and what they will cost, and start nothing");
  app.add_option("--parallel", options->parallel, "Runs at a time; each has its share of the cores")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--gpu", options->gpu,
                 "GPUs for runs (resources.gpus of them, else 1), as 0-7: they are handed out in "
                 "turn; with "
                 "--launcher slurm those of each worker, as it sees them")
      ->type_name("LIST");
  app.add_option("--launcher", options->launcher,
                 "Where runs are computed: here, or each as a job of a Slurm cluster")
      ->capture_default_str()
      ->check(CLI::IsMember({"local", "slurm"}));
  app.add_option("--slurm-server", options->slurm_server,
                 "Words for sbatch, for the server's part of a job: '--partition=cpu'")
      ->type_name("WORDS");
  app.add_option("--slurm-workers", options->slurm_workers,
                 "Words for sbatch, for the workers' part: '--partition=gpu --gpus-per-task=1', "
                 "then with --gpu 0")
      ->type_name("WORDS");
  app.add_option("--set", options->set,
                 "Change one key of every run: --set train.epochs=2 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--retry-failed", options->retry_failed,
               "Repeat runs that failed; what they left is kept");
  app.add_flag("--json", options->json, "Print results, or the runs of --dry-run, as JSON");
  app.add_flag("--quiet", options->quiet, "No progress, only what went wrong");
}

void AddReportOptions(CLI::App& report, ReportOptions* options, double* target) {
  report.add_option("dir", options->dir, "A sweep's directory, or any folder of run directories")
      ->type_name("DIR")
      ->required();
  report.add_option("--out", options->out, "The page; default: DIR/report.html")->type_name("FILE");
  report.add_flag("--markdown", options->markdown, "Print the table as Markdown instead");
  report.add_flag("--csv", options->csv, "Print a line for each run as CSV instead");
  report.add_option("--svg", options->svg_dir, "Write each figure as SVG and its data as CSV, too")
      ->type_name("DIR");
  report
      .add_option("--target", *target,
                  "Accuracy that times are taken to, as 0.9; default: just below the twin's")
      ->check(CLI::Range(0.0, 1.0));
}

absl::Status Report(const ReportOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const WrittenReport written, WriteReport(options));
  std::cout << written.text;
  for (const std::string& file : written.files) std::cout << file << "\n";
  std::cout << std::flush;
  return std::cout ? absl::OkStatus()
                   : absl::DataLossError("the report could not be written to standard output");
}

}  // namespace
}  // namespace psgd

int main(int argc, char** argv) {
  using namespace psgd;
  SweepOptions sweep;
  ReportOptions report;
  double target = -1;
  CLI::App app(std::string(kExamples) +
                   "\nRuns what a sweep's file asks for, some at a time, and writes a report. "
                   "Ctrl-C once stops with "
                   "checkpoints, twice at once; the same command goes on.",
               "ps-sweep");
  AddSweepOptions(app, &sweep);
  CLI::App* of_report = app.add_subcommand(
      "report", std::string(kReportExamples) + "\nOne page of figures and a table; works offline.");
  AddReportOptions(*of_report, &report, &target);
  if (const auto code = ParseCommandLine(app, argc, argv)) return *code;
  if (of_report->parsed()) {
    if (target >= 0) report.target = target;
    const absl::Status status = Report(report);
    return status.ok() ? kExitOk : Fail("ps-sweep", status);
  }
  if (sweep.file.empty()) {
    return Fail("ps-sweep", absl::InvalidArgumentError(
                                "no sweep given; say ps-sweep SWEEP.yaml, or ps-sweep report DIR"));
  }
  const StopSignals stops;
  sweep.stops = &stops.count();
  const SweepResult result = RunSweep(sweep);
  std::cout << result.output << std::flush;
  return result.status.ok() ? kExitOk : Fail("ps-sweep", result.status);
}
