// ps-sweep: executes many runs and reports their results.
#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/command_line.h"
#include "apps/exit_code.h"
#include "apps/program_mains.h"
#include "apps/stop_signals.h"
#include "common/atomic_file.h"
#include "experiment/config/other_names.h"
#include "experiment/report/png.h"
#include "experiment/report/write_report.h"
#include "experiment/sweep/attend.h"
#include "experiment/sweep/sweep.h"
#include "train/gpu_devices.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-sweep configs/sweeps/quick.yaml                      # codec x staleness, a few minutes
  ps-sweep configs/sweeps/quick.yaml --dry-run            # the runs, and what they will cost
  ps-sweep configs/sweeps/quick.yaml --parallel 2 --set train.epochs=1
  ps-sweep configs/sweeps/quick.yaml                      # again: goes on where it was stopped
  ps-sweep configs/sweeps/quick.yaml --retry-failed
  ps-sweep configs/sweeps/batch_size.yaml --gpu 0-7 --parallel 8 --dir /scratch/batch
  ps-sweep configs/sweeps/shards.yaml --launcher slurm --parallel 20 --slurm-server=--partition=cpu
  ps-sweep configs/sweeps/density.yaml --launcher ssh --hosts node-1,node-2 --dir /shared/density
  ps-sweep report runs/quick                              # writes runs/quick/report.html
  ps-sweep report runs --markdown                         # of any folder of run directories
)";

constexpr char kReportExamples[] = R"(Examples:
  ps-sweep report runs/quick
  ps-sweep report runs/quick --out quick.html --svg figures
  ps-sweep report runs/quick --png figures                # by Chromium (apt-get install chromium)
  ps-sweep report runs --markdown > table.md
  ps-sweep report runs/quick --target 0.9                 # time to 90 %
)";

void AddSweepOptions(CLI::App& app, SweepOptions* options) {
  app.add_option("sweep", options->file, "YAML file that says what to compare")->type_name("SWEEP");
  app.add_option("--dir", options->dir, "Where the sweep leaves its files; default: runs/NAME")
      ->type_name("DIR");
  app.add_flag(
      "--dry-run", options->dry_run,
      "Show the runs and what they will cost. Where none has finished some are tried for a "
      "moment, to tell the time");
  app.add_option(
         "--parallel", options->parallel,
         "Runs at a time, with --launcher ssh on each host; each has its share of the cores")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--gpu", options->gpu,
                 "GPUs for runs (resources.gpus of them, else 1), as 0-7: they are handed out in "
                 "turn; with --launcher slurm those of each worker, as it sees them, with "
                 "--launcher ssh those of each host")
      ->type_name("LIST");
  app.add_option("--launcher", options->launcher,
                 "Where runs are computed: here, each as a job of a Slurm cluster, or on --hosts")
      ->capture_default_str()
      ->check(CLI::IsMember({"local", "slurm", "ssh"}));
  app.add_option(
         "--hosts", options->hosts,
         "Machines for --launcher ssh, as node-1,user@node-2; with the programs and --dir at "
         "the same paths")
      ->type_name("LIST");
  app.add_option("--hosts-file", options->hosts_file,
                 "The same, one a line, with # before comments")
      ->type_name("FILE");
  app.add_option("--ssh", options->ssh, "The ssh to use, with its options: 'ssh -F my.config'")
      ->type_name("WORDS")
      ->capture_default_str();
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

void AddReportOptions(CLI::App& report, ReportOptions* options, std::string* png_dir,
                      double* target) {
  report.add_option("dir", options->dir, "A sweep's directory, or any folder of run directories")
      ->type_name("DIR")
      ->required();
  report.add_option("--out", options->out, "The file; default: DIR/report.html")->type_name("FILE");
  report.add_flag("--markdown", options->markdown,
                  "The table as Markdown instead, printed without --out");
  report.add_flag("--csv", options->csv, "A line for each run as CSV instead, likewise");
  report.add_option("--svg", options->svg_dir, "Write each figure as SVG and its data as CSV, too")
      ->type_name("DIR");
  report.add_option("--png", *png_dir, "Write each figure as PNG, too; Chromium draws it")
      ->type_name("DIR");
  report
      .add_option("--metric", options->metric,
                  "Compare by loss or any measure of summary.json, as mae; default: the first of "
                  "accuracy, rmse, f1, auc and perplexity that runs have measured")
      ->type_name("NAME");
  report
      .add_option("--target", *target,
                  "Value of the metric that times are taken to, as 0.9; default: a little worse "
                  "than the twin's")
      ->check([](const std::string& text) {
        double value = 0;
        const bool sound = absl::SimpleAtod(text, &value) && value >= 0 && std::isfinite(value);
        return sound ? "" : absl::StrCat(text, " is no number from 0, as 0.9");
      });
}

struct AttendArguments {
  AttendOptions options;
  bool probe = false;
  std::string cores;
  int silence_seconds = 30;
  int grace_seconds = 30;
};

void AddAttendOptions(CLI::App& attend, AttendArguments* arguments) {
  AttendOptions& options = arguments->options;
  attend.add_option("--folder", options.folder, "To work in")->type_name("DIR")->required();
  attend.add_option("--lock", options.lock, "The run's, in the sweep's directory")
      ->type_name("FILE")
      ->required();
  attend.add_option("--log", options.log, "Where the run's last words go")->type_name("FILE");
  attend.add_option("--cores", arguments->cores, "That it may run on, as 0,1")->type_name("LIST");
  attend
      .add_option("--silence", arguments->silence_seconds, "So long without a word: it is stopped")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  attend.add_option("--grace", arguments->grace_seconds, "So long it may take for its checkpoint")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  attend.add_flag("--probe", arguments->probe, "Only say whether runs can be started here");
  attend.add_option("command", options.command, "ps-run, with its arguments");
}

int AttendRun(AttendArguments arguments) {
  if (arguments.probe) {
    const auto cores = ProbeHost(arguments.options.folder, arguments.options.lock);
    if (cores.ok()) std::cout << *cores << std::endl;
    if (!cores.ok()) std::cerr << "ps-sweep attend: " << cores.status().message() << std::endl;
    return cores.ok() ? kExitOk : kExitUnfit;
  }
  if (arguments.options.command.empty()) {
    return Fail("ps-sweep attend",
                absl::InvalidArgumentError("no command given; say -- ps-run ..."));
  }
  if (!arguments.cores.empty()) {
    const auto cores = ParseDeviceList(arguments.cores);
    if (!cores.ok()) return Fail("ps-sweep attend", Annotate(cores.status(), "--cores"));
    arguments.options.cores = *cores;
  }
  arguments.options.silence = std::chrono::seconds(arguments.silence_seconds);
  arguments.options.grace = std::chrono::seconds(arguments.grace_seconds);
  const StopSignals stops;
  arguments.options.stops = &stops.count();
  const absl::StatusOr<int> code = Attend(arguments.options);
  if (code.ok()) return *code;
  std::cerr << "ps-sweep attend: " << code.status().message() << std::endl;
  return kExitUnfit;
}

absl::Status Report(ReportOptions options, const std::string& png_dir) {
  // Pictures are drawn from SVG files, which are removed if the user did not request them.
  const bool only_png = !png_dir.empty() && options.svg_dir.empty();
  if (only_png) options.svg_dir = png_dir + "/.svg";
  const absl::Cleanup remove = [&] {
    std::error_code ignored;
    if (only_png) std::filesystem::remove_all(options.svg_dir, ignored);
  };
  PSGD_ASSIGN_OR_RETURN(WrittenReport written, WriteReport(options));
  if (only_png) {
    std::erase_if(written.files, [](const std::string& file) { return file.ends_with(".svg"); });
  }
  if (!png_dir.empty()) {
    PSGD_ASSIGN_OR_RETURN(const auto pictures, WritePngs(written.figures, png_dir));
    written.files.insert(written.files.end(), pictures.begin(), pictures.end());
  }
  std::cout << written.text;
  for (const std::string& file : written.files) {
    if (!IsWrittenDirectly(file)) std::cout << file << "\n";
  }
  std::cout << std::flush;
  return std::cout ? absl::OkStatus()
                   : absl::DataLossError("the report could not be written to standard output");
}

}  // namespace
}  // namespace psgd

int ps_sweep_main(int argc, char** argv) {
  using namespace psgd;
  SweepOptions sweep;
  ReportOptions report;
  double target = -1;
  CLI::App app(std::string(kExamples) +
                   "\nRuns what a sweep's file asks for, some at a time, and writes a report. "
                   "Ctrl-C once stops with checkpoints, twice at once; the same command goes on.",
               "ps-sweep");
  AddSweepOptions(app, &sweep);
  CLI::App* of_report = app.add_subcommand(
      "report", std::string(kReportExamples) + "\nOne page of figures and a table; works offline.");
  std::string png_dir;
  AddReportOptions(*of_report, &report, &png_dir, &target);
  AttendArguments attend;
  CLI::App* of_attend = app.add_subcommand(
      "attend",
      "What ps-sweep --launcher ssh starts on a host: one run, which ends when the "
      "connection does. Not for people.");
  of_attend->group("");  // hidden in the help as well
  AddAttendOptions(*of_attend, &attend);
  const auto hint = [](const std::string& option, const std::string& value) {
    return HintForOption(option, value, /*optimizer=*/"");
  };
  if (const auto code = ParseCommandLine(app, argc, argv, hint)) return *code;
  if (of_attend->parsed()) return AttendRun(std::move(attend));
  if (of_report->parsed()) {
    if (target >= 0) report.target = target;
    const absl::Status status = Report(report, png_dir);
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
