// ps-bench: compares each hot path with the machine's limit.
#include <iostream>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/command_line.h"
#include "apps/program_mains.h"
#include "bench/apply_bench.h"
#include "bench/bench_history.h"
#include "bench/codec_bench.h"
#include "bench/data_bench.h"
#include "bench/journal_bench.h"
#include "bench/optimizers.h"
#include "bench/push_pull_bench.h"
#include "bench/step_bench.h"
#include "common/files.h"
#include "common/units.h"
#include "compression/codec.h"
#include "engine/graph/recompute.h"
#include "engine/runtime/plugin.h"
#include "experiment/record/cache_file.h"
#include "worker/device_codecs.h"

namespace psgd {
namespace {

constexpr char kExamples[] = R"(Examples:
  ps-bench push-pull --transport ipc --slice 4MiB
  ps-bench push-pull --transport grpc --slice 64KiB --count 64 --workers 2 --codec onebit --json
  ps-bench push-pull --transport auto --slice 4MiB --count 16 --workers 2 --staleness 0
  ps-bench apply --optimizer momentum --json
  ps-bench journal --folder runs                 # pushes a second by durability.acknowledge
  ps-bench codec --codec topk --elements 25000000
  ps-bench codec --codec fp16 --codec topk --gpu 0 --json
  ps-bench step --model lenet5 --batch 64
  ps-bench step --model resnet18 --image 64 --batch 8 --roofline   # where the time goes
  ps-bench data --threads 4 --image 224
  ps-bench history docs/bench-history.jsonl --page history.html  # what scripts/bench.sh measured
)";

// Those lines of kExamples that start with this subcommand.
std::string ExamplesOf(const std::string& subcommand) {
  std::string examples = "Examples:\n";
  for (const absl::string_view line : absl::StrSplit(kExamples, '\n')) {
    if (absl::StartsWith(line, absl::StrCat("  ps-bench ", subcommand, " ")))
      absl::StrAppend(&examples, std::string(line), "\n");
  }
  return absl::StrCat(examples, "\n");
}

struct Arguments {
  bool json = false;
  std::string history = "docs/bench-history.jsonl";
  std::string page;
  std::string transport = "ipc";
  std::string size = "4MiB";
  std::string codec = "none";
  std::string optimizer = "sgd";
  std::optional<int> gpu;
  std::string model = "lenet5";
  int tokens = 0;
  int layers = 2;
  int width = 128;
  int image = 28;
  std::string recompute = "0";
  std::string precision = "fp32";
  PushPullBenchOptions push_pull;
  ApplyBenchOptions apply;
  JournalBenchOptions journal = {.folder = "."};
  CodecBenchOptions codecs;
  DataBenchOptions data;
  StepBenchOptions step;
};

absl::StatusOr<ClusterConfig::Transport> TransportNamed(const std::string& name) {
  ClusterConfig::Transport transport;
  if (!ClusterConfig::Transport_Parse(absl::AsciiStrToUpper(name), &transport)) {
    return InvalidArgumentError("unknown transport \"", name,
                                "\"; use zmq, ipc, grpc, auto or ucx");
  }
  return transport;
}

absl::StatusOr<CodecConfig> CodecNamed(const std::string& name) {
  CodecConfig config;
  const auto* field = CodecConfig::descriptor()->FindFieldByName(name);
  if (field == nullptr) {
    std::vector<std::string> names;
    for (const CodecConfig& known : DefaultCodecs())
      names.emplace_back(MakeCodec(known).value()->name());
    return InvalidArgumentError("unknown codec \"", name, "\"; use one of ",
                                absl::StrJoin(names, ", "));
  }
  config.GetReflection()->MutableMessage(&config, field);
  return config;
}

absl::StatusOr<std::vector<BenchRow>> PushPull(const Arguments& arguments) {
  PushPullBenchOptions options = arguments.push_pull;
  PSGD_ASSIGN_OR_RETURN(options.transport, TransportNamed(arguments.transport));
  PSGD_ASSIGN_OR_RETURN(options.codec, CodecNamed(arguments.codec));
  PSGD_ASSIGN_OR_RETURN(options.optimizer, OptimizerNamed(arguments.optimizer));
  PSGD_ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(arguments.size));
  if (bytes < 4 || bytes > (4 << 20)) {
    return absl::InvalidArgumentError("--slice must be 4 to 4MiB: a slice has at most 1 Mi values");
  }
  options.slice_bytes = static_cast<uint32_t>(bytes / 4 * 4);
  PSGD_ASSIGN_OR_RETURN(std::vector<BenchRow> rows, RunPushPullBench(options));
  for (BenchRow& row : rows) {
    row.settings = {{"optimizer", arguments.optimizer},
                    {"codec", arguments.codec},
                    {"staleness", absl::StrCat(options.staleness)},
                    {"copy", options.copy ? "yes" : "no"},
                    {"pin", options.pin ? "yes" : "no"}};
    if (options.apart) row.settings["apart"] = "yes";  // histories without it stay comparable
  }
  return rows;
}

absl::StatusOr<int> RecomputeNamed(const std::string& text) {
  int segments = 0;
  if (text == "auto") return kRecomputeAuto;
  if (absl::SimpleAtoi(text, &segments) && segments >= 0) return segments;
  return InvalidArgumentError("--recompute ", text,
                              ": must be a number of segments of at least 0, or auto");
}

absl::StatusOr<std::vector<BenchRow>> TrainingStep(const Arguments& arguments) {
  StepBenchOptions options = arguments.step;
  options.model.set_zoo(arguments.model);
  if (arguments.model == "mlp") options.model.add_hidden(512);
  if (arguments.model == "ncf") {
    options.shape = {.classes = 2, .entries = 2, .vocabulary = 10000};
  } else if (arguments.model == "logistic_regression") {
    options.shape = {.classes = 2, .entries = 64, .vocabulary = 50000};
  } else if (arguments.model == "bag_of_tokens" || arguments.model == "transformer_encoder") {
    const int tokens = arguments.tokens > 0 ? arguments.tokens : 128;
    options.shape = {.classes = 10, .length = tokens, .source = tokens, .vocabulary = 4096};
    options.model.set_width(arguments.width);
    if (arguments.model == "transformer_encoder") options.model.set_layers(arguments.layers);
  } else if (arguments.tokens > 0) {
    // A transformer's target has as many tokens as its source.
    const int source = arguments.model == "transformer" ? arguments.tokens : 0;
    options.shape = {
        .classes = 256, .length = arguments.tokens + source, .source = source, .vocabulary = 256};
    options.model.set_layers(arguments.layers);
    options.model.set_width(arguments.width);
  }
  PSGD_ASSIGN_OR_RETURN(const int recompute, RecomputeNamed(arguments.recompute));
  options.model.set_recompute(recompute);
  PSGD_ASSIGN_OR_RETURN(options.precision, PrecisionNamed(arguments.precision));
  PSGD_RETURN_IF_ERROR(CheckPrecision(options.backend, options.plugin_dir, options.precision));
  if (arguments.image != 28) {
    const int classes = arguments.image < 200 ? 10 : 1000;
    options.shape = {3, arguments.image, arguments.image, classes};
  }
  options.choices = CacheFile("cudnn-engines");  // as ps-worker
  return RunStepBench(options);
}

absl::StatusOr<std::vector<BenchRow>> Codecs(const Arguments& arguments) {
  CodecBenchOptions options = arguments.codecs;
  std::unique_ptr<DeviceCodecs> device;
  if (arguments.gpu) {
    PSGD_ASSIGN_OR_RETURN(device, LoadDeviceCodecs("cudnn", "", *arguments.gpu));
    options.device = device.get();
  }
  return RunCodecBench(options);
}

void AddText(CLI::App* app, const char* option, std::string& value, const char* help) {
  app->add_option(option, value, help)->capture_default_str();
}

template <typename Number>
void AddNumber(CLI::App* app, const char* option, Number& value, const char* help, int low,
               int high) {
  app->add_option(option, value, help)->capture_default_str()->check(CLI::Range(low, high));
}

absl::Status ShowHistory(const Arguments& arguments) {
  PSGD_ASSIGN_OR_RETURN(const std::vector<HistoryEntry> entries, ReadHistory(arguments.history));
  std::cout << HistoryText(entries);
  if (arguments.page.empty()) return absl::OkStatus();
  return WriteFileAtomically(arguments.page, HistoryPage(entries));
}

std::string ThreeDigits(double value) {
  return value < 100 ? absl::StrFormat("%#.3g", value) : absl::StrFormat("%.0f", value);
}

void Print(const std::vector<BenchRow>& rows, bool json) {
  if (json) {
    for (const BenchRow& row : rows) std::cout << ToJsonLine(row) << "\n";
    return;
  }
  std::cout << absl::StreamFormat("%-40s %10s %10s %8s  %s\n", "case", "GB/s", "limit", "ratio",
                                  "verified");
  for (const BenchRow& row : rows) {
    std::cout << absl::StreamFormat("%-40s %10s %10s %8s  %s", row.name, ThreeDigits(row.gbps),
                                    ThreeDigits(row.limit_gbps), ThreeDigits(row.ratio),
                                    row.verified ? "yes" : "NO");
    for (const auto& [name, value] : row.settings) std::cout << "  " << name << "=" << value;
    for (const auto& [name, value] : row.extra)
      std::cout << absl::StreamFormat("  %s=%.6g", name, value);
    std::cout << "\n";
  }
}

}  // namespace
}  // namespace psgd

int ps_bench_main(int argc, char** argv) {
  using namespace psgd;
  Arguments arguments;
  CLI::App app(
      std::string(kExamples) +
          "\nMeasures each hot path, checked first, against the machine's own limit in the same "
          "run (memcpy of one core, or stream triad).",
      "ps-bench");
  app.require_subcommand(1);
  const auto add = [&](const std::string& name, const char* help) {
    CLI::App* sub = app.add_subcommand(name, absl::StrCat(ExamplesOf(name), help));
    sub->add_flag("--json", arguments.json, "One JSON object a row");
    return sub;
  };
  CLI::App* push_pull = add("push-pull", "Session, transport, shard and optimizer, two processes");
  AddText(push_pull, "--transport", arguments.transport, "zmq, ipc, grpc, auto or ucx");
  AddText(push_pull, "--slice", arguments.size, "Bytes of a slice's weights");
  AddNumber(push_pull, "--count", arguments.push_pull.slices, "Slices, all on the way at once", 1,
            10000);
  AddNumber(push_pull, "--workers", arguments.push_pull.workers, "Sessions", 1, 64);
  AddNumber(push_pull, "--rounds", arguments.push_pull.rounds, "Rounds counted", 1, 100000);
  AddNumber(push_pull, "--pause", arguments.push_pull.pause_ms,
            "Milliseconds before each exchange, in which both sides fall asleep", 0, 1000);
  AddNumber(push_pull, "--staleness", arguments.push_pull.staleness,
            "consistency.staleness; -1: unbounded", -1, 1000);
  push_pull->add_flag("--apart", arguments.push_pull.apart,
                      "Each slice in messages of its own; otherwise small ones share");
  AddText(push_pull, "--codec", arguments.codec, "Of the pushes");
  AddText(push_pull, "--optimizer", arguments.optimizer, "sgd, momentum, ...");
  push_pull->add_flag("--copy", arguments.push_pull.copy,
                      "Copy pulled weights to the caller's memory, as a trainer does");
  push_pull->add_flag("--pin", arguments.push_pull.pin, "Each process on a core of its own");
  push_pull->add_flag("--profile", arguments.push_pull.profile,
                      "Also microseconds of processor time, switches and page faults a slice");

  CLI::App* apply = add("apply", "Payload to weights on a shard, on one core or more");
  apply->add_option("--optimizer", arguments.apply.optimizers,
                    "sgd, momentum, ... (repeatable; all)");
  AddNumber(apply, "--shards", arguments.apply.shards,
            "Shards, each on a core of its own, against the triad of as many cores", 1, 1024);

  CLI::App* journal =
      add("journal", "What it costs a shard to write pushes down, by durability.acknowledge");
  AddText(journal, "--folder", arguments.journal.folder, "On the disk in question");
  AddNumber(journal, "--group", arguments.journal.group, "Pushes written down together", 1, 1024);

  CLI::App* codec = add("codec", "Encode and decode, every implementation, one core");
  codec->add_option("--codec", arguments.codecs.codecs, "none, fp16, topk, ... (repeatable; all)");
  AddNumber(codec, "--elements", arguments.codecs.elements, "Values of the gradient", 1, 1 << 30);
  codec->add_option("--gpu", arguments.gpu, "Only the twins on this GPU, against its memory or bus")
      ->check(CLI::Range(0, 1023));

  CLI::App* data = add("data", "JPEG images to batches, by the loader's threads");
  AddNumber(data, "--threads", arguments.data.threads, "That prepare batches", 1, 1024);
  AddNumber(data, "--image", arguments.data.size, "Pixels a side of a sample", 1, 4096);
  AddNumber(data, "--width", arguments.data.width, "Of the JPEG images", 1, 8192);
  AddNumber(data, "--height", arguments.data.height, "Of the JPEG images", 1, 8192);

  CLI::App* step = add("step", "Forward and backward of a network");
  AddText(
      step, "--model", arguments.model,
      "A network of the zoo, as lenet5; with --tokens gpt, lstm_lm and transformer; bag_of_tokens "
      "and transformer_encoder on 128 of 4096 tokens; ncf on pairs of 10000 users and items, "
      "logistic_regression on 64 of 50000 features");
  AddNumber(step, "--tokens", arguments.tokens,
            "Bytes of a sample of text, of transformer in the source and in the target; 0: 28x28 "
            "images",
            0, 65536);
  AddNumber(step, "--layers", arguments.layers, "Of gpt, lstm_lm or transformer", 1, 1000);
  AddNumber(step, "--width", arguments.width, "Of gpt, lstm_lm or transformer", 1, 65536);
  AddText(step, "--recompute", arguments.recompute, "model.recompute: segments, or auto");
  AddNumber(step, "--batch", arguments.step.batch, "Samples", 1, 65536);
  AddNumber(step, "--threads", arguments.step.threads, "Processor threads", 1, 1024);
  AddNumber(step, "--image", arguments.image,
            "Pixels a side: 28, grey, in 10 classes; others in colour, from 200 in 1000 classes", 1,
            4096);
  AddText(step, "--engine", arguments.step.backend, "onednn, cudnn or reference");
  step->add_option("--precision", arguments.precision, "fp32, bf16 or, of cudnn, tf32 or fp16")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}));
  step->add_flag("--roofline", arguments.step.roofline,
                 "Also each kind of op and the slowest nodes: time, and the share of this device's "
                 "limits, which a large sum and a large product of matrices measure");
  CLI::App* history = app.add_subcommand("history", "What scripts/bench.sh measured, over time");
  history->add_option("file", arguments.history, "The history")->capture_default_str();
  history->add_option("--page", arguments.page, "Also draw it, as an HTML page")->type_name("FILE");
  if (const auto code = ParseCommandLine(app, argc, argv)) return *code;
  if (history->parsed()) {
    const absl::Status shown = ShowHistory(arguments);
    return shown.ok() ? kExitOk : Fail("ps-bench", shown);
  }
  absl::StatusOr<std::vector<BenchRow>> rows;
  if (push_pull->parsed()) {
    rows = PushPull(arguments);
  } else if (apply->parsed()) {
    rows = RunApplyBench(arguments.apply);
  } else if (journal->parsed()) {
    rows = RunJournalBench(arguments.journal);
  } else if (codec->parsed()) {
    rows = Codecs(arguments);
  } else if (data->parsed()) {
    rows = RunDataBench(arguments.data);
  } else {
    rows = TrainingStep(arguments);
  }
  if (!rows.ok()) return Fail("ps-bench", rows.status());
  Print(*rows, arguments.json);
  for (const BenchRow& row : *rows) {
    if (!row.verified) return kExitFailed;
  }
  return kExitOk;
}
