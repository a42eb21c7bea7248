#include "experiment/launch/run_dir_status.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files.h"
#include "common/first_measure.h"
#include "experiment/launch/checkpoint_report.h"
#include "experiment/launch/codec_choices_text.h"
#include "experiment/launch/status_text.h"
#include "experiment/launch/summary_text.h"
#include "experiment/record/codec_choices_record.h"
#include "experiment/record/evaluation_record.h"
#include "experiment/record/readable.h"
#include "experiment/record/run_dir.h"
#include "server/durability/checkpoint_files.h"

namespace psgd {
namespace {

constexpr size_t kMostSummaryBytes = size_t{1} << 20;

void ReadRecords(const RunDir& dir, RunDirStatus* status) {
  const auto records = ReadMetrics(dir.MetricsFile());
  if (!records.ok()) {
    status->notes.emplace_back(records.status().message());
    return;
  }
  std::map<double, EvalResult> evaluations;
  for (const Record& record : *records) {
    const std::string kind = record.value("kind", "");
    if (kind == "progress") status->progress = record;
    if (kind == "codecs") {
      const CodecChoices choices = CodecChoicesOf(record);
      const bool first = status->choices.tensors().empty();
      if (first || choices.worker() <= status->choices.worker()) status->choices = choices;
    }
    if (kind == "resumed") {  // later evaluations are of training that was given up
      constexpr double kSame = 1e-9;
      evaluations.erase(evaluations.upper_bound(NumberIn(record, "epoch") + kSame),
                        evaluations.end());
    }
    if (kind != "evaluation") continue;
    const EvalResult result = EvaluationOf(record);
    evaluations[result.epoch()] = result;
  }
  for (auto& [epoch, result] : evaluations) status->evaluations.push_back(std::move(result));
}

}  // namespace

absl::StatusOr<RunDirStatus> ReadRunDirStatus(const std::string& run_dir) {
  PSGD_ASSIGN_OR_RETURN(const CheckpointStore store, CheckpointsOf(run_dir));
  const RunDir dir(run_dir);
  RunDirStatus status;
  status.run_dir = run_dir;
  if (FileExists(dir.SummaryFile())) {
    auto summary = ReadSummary(dir.SummaryFile());
    if (summary.ok()) {
      status.summary = *std::move(summary);
    } else {
      status.notes.emplace_back(summary.status().message());
    }
  }
  ReadRecords(dir, &status);
  auto checkpoints = store.List(&status.notes);
  if (checkpoints.ok()) status.checkpoints = *std::move(checkpoints);
  return status;
}

std::string RunDirStatusText(const RunDirStatus& status) {
  if (status.live) return StatusText(*status.live);
  std::string text;
  if (status.summary) {
    text = SummaryText(*status.summary, status.run_dir);
  } else {
    text =
        absl::StrCat(status.run_dir, ": no summary; the run goes on, or its server was killed\n");
    if (status.progress.is_object()) {
      const double loss = NumberIn(status.progress, "loss");  // 0: a program does not tell it
      absl::StrAppendFormat(&text, "  last heard: epoch %.2f, %s%s samples/s, after %s\n",
                            NumberIn(status.progress, "epoch"),
                            loss == 0 ? "" : absl::StrCat("loss ", ReadableLoss(loss), ", "),
                            ReadableCount(NumberIn(status.progress, "samples_per_second")),
                            ReadableTime(NumberIn(status.progress, "seconds")));
    }
  }
  return absl::StrCat(text, EvaluationsText(status.evaluations),
                      CheckpointsText(status.checkpoints), CodecChoicesText(status.choices));
}

Record RunDirStatusJson(const RunDirStatus& status) {
  Record json{{"run_dir", status.run_dir}, {"summary", nullptr}, {"progress", status.progress}};
  if (status.summary) {
    const auto text = ReadSmallFile(RunDir(status.run_dir).SummaryFile(), kMostSummaryBytes);
    if (text.ok()) json["summary"] = Record::parse(*text, nullptr, /*allow_exceptions=*/false);
  }
  json["evaluations"] = Record::array();
  for (const EvalResult& result : status.evaluations) {
    json["evaluations"].push_back(EvaluationRecord(result));
  }
  if (status.live) json["live"] = Record::parse(StatusJson(*status.live));
  if (!status.choices.tensors().empty()) json["codecs"] = CodecChoicesRecord(status.choices);
  json["checkpoints"] = Record::array();
  const std::vector<CheckpointInfo> infos = InfosOf(status.checkpoints);
  for (size_t i = 0; i < infos.size(); ++i) {
    Record record = CheckpointRecord(infos[i]);
    record["unix_seconds"] = status.checkpoints[i].unix_seconds();
    json["checkpoints"].push_back(std::move(record));
  }
  return json;
}

}  // namespace psgd
