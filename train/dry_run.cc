#include "train/dry_run.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/onnx/check.h"
#include "engine/runtime/memory_report.h"
#include "engine/zoo/zoo.h"
#include "proto/micro_batch.h"
#include "train/network_data.h"

namespace psgd {
namespace {

double InMiB(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string Row(const char* what, size_t bytes, const std::string& note = "") {
  return absl::StrFormat("  %-15s %10.2f MiB%s\n", what, InMiB(bytes),
                         note.empty() ? "" : "  " + note);
}

}  // namespace

absl::StatusOr<std::string> DryRunText(const Config& config, const NetworkOptions& options,
                                       size_t available) {
  PSGD_ASSIGN_OR_RETURN(const DataSets data, OpenDataOf(config));
  PSGD_ASSIGN_OR_RETURN(const PaddingNote padding, CheckPadding(config, data));
  if (padding.of_many) return absl::InvalidArgumentError(padding.text);
  PSGD_ASSIGN_OR_RETURN(const OnnxFacts onnx, FactsOfOnnx(config.model()));
  PSGD_RETURN_IF_ERROR(onnx.lost);
  const int batch = MicroBatchOf(config.data());
  PSGD_ASSIGN_OR_RETURN(const MemoryReport report,
                        PlanMemory(config.model(), data.shape, batch, options));
  std::string text =
      absl::StrCat(ModelName(config.model()), " on ", options.backend,
                   options.precision == Precision::kBf16 ? " in bf16" : "", ", batches of ", batch,
                   " samples of ", data.shape.ImageText(),
                   config.model().recompute() != 0 ? ", recomputing activations" : "", "\n");
  absl::StrAppend(
      &text, Row("weights", report.weights), Row("gradients", report.gradients),
      Row("batch", report.batch),
      Row("step", report.step,
          absl::StrFormat("%.2f MiB if nothing were reused; of it, at the fullest moment",
                          InMiB(report.step_without_reuse))),
      Row("  activations", report.fullest_activations),
      Row("  gradients", report.fullest_gradients, "of activations"),
      Row("  scratch", report.fullest_scratch,
          report.scratch_may_differ
              ? "of the algorithms; those that training measures as fastest may want other"
              : "of the algorithms"),
      Row("kept", report.kept, "weights in other layouts"));
  size_t together = report.total();
  if (report.ahead > 0 && config.consistency().pull_ahead()) {
    const bool room = available == 0 ||
                      (available >= together && HasRoomAhead(report.ahead, available - together));
    absl::StrAppend(&text, Row("weights ahead", room ? report.ahead : 0,
                               room ? "those of the next step (consistency.pull_ahead)"
                                    : "no room: they come between the steps"));
    if (room) together += report.ahead;
  }
  absl::StrAppend(&text, Row("together", together));
  if (!report.note.empty()) absl::StrAppend(&text, report.note, "\n");
  for (const std::string& note : onnx.check.notes) absl::StrAppend(&text, note, "\n");
  if (!padding.text.empty()) absl::StrAppend(&text, padding.text, "\n");
  if (!data.note.empty()) absl::StrAppend(&text, data.note, "\n");
  if (available == 0) return text;
  PSGD_ASSIGN_OR_RETURN(const int largest,
                        LargestBatch(config.model(), data.shape, options, available));
  absl::StrAppend(&text, "largest batch in the ", available >> 20,
                  " MiB that are free: ", largest == 0 ? "none" : absl::StrCat("about ", largest),
                  "\n");
  return text;
}

}  // namespace psgd
