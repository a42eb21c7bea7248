// Writes what a server's run leaves behind: metrics.jsonl while it goes, then summary.json and
// weights.safetensors.
#pragma once

#include <memory>
#include <string>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "experiment/records.h"
#include "experiment/run_dir.h"
#include "experiment/summary.h"
#include "proto/control.pb.h"

namespace psgd {

class ParameterServer;

// Thread-safe.
class RunRecorder {
 public:
  static absl::StatusOr<std::unique_ptr<RunRecorder>> Open(const RunDir& dir, Log log);

  // Of a resumed run: what was trained before, which no rate of this part counts. Before the others.
  void ResumedAfter(uint64_t samples) { samples_before_ = samples; }
  void Evaluation(const EvalResult& result);
  void Checkpoint(const CheckpointInfo& info);
  void Choices(const CodecChoices& choices);
  void News(const std::string& text);
  void Progress(const StatusReply& status);

  // The present weights as weights.safetensors; what they are of goes into its metadata.
  absl::Status SaveWeights(ParameterServer& server);
  absl::Status SaveSummary(const StatusReply& status, Summary::Status outcome,
                           const std::string& error);

 private:
  RunRecorder(const RunDir& dir, std::unique_ptr<MetricsWriter> metrics, Log log);
  void Write(absl::string_view kind, const Record& record);
  double Elapsed() const;

  const RunDir dir_;
  const std::unique_ptr<MetricsWriter> metrics_;
  const Log log_;
  const Time start_;
  uint64_t samples_before_ = 0;
};

// What a summary says of a run in that state; a pure function, for ps-ctl and tests. Counts are of the
// whole run, times and the rate since it was last resumed, after `samples_before`.
Summary SummaryOf(const StatusReply& status, Summary::Status outcome, const std::string& error,
                  double wall_seconds, uint64_t samples_before);

}  // namespace psgd
