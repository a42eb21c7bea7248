// Writes what a server's run leaves behind: metrics.jsonl and TensorBoard's event file while it
// goes, then summary.json and weights.safetensors.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "experiment/record/detail_record.h"
#include "experiment/record/event_file.h"
#include "experiment/record/records.h"
#include "experiment/record/run_dir.h"
#include "experiment/record/summary.h"
#include "proto/control.pb.h"

namespace psgd {

// Thread-safe.
class RunRecorder {
 public:
  // Is told each record: those that are written, and details more often. On any thread; must not
  // wait.
  using Observer = std::function<void(const Record& record)>;

  static absl::StatusOr<std::unique_ptr<RunRecorder>> Open(const RunDir& dir, Log log,
                                                           Observer observer = nullptr);
  // Of a run that a server before this one led: times go on from the last record that is there.
  static absl::StatusOr<std::unique_ptr<RunRecorder>> GoOn(const RunDir& dir, Log log,
                                                           Observer observer = nullptr);

  // How the run stands when this server begins: times go on from there. No rate counts the samples
  // that were trained before the run was resumed. Before the progress.
  void BeginsAt(const StatusReply& status, uint64_t samples_before);
  void Evaluation(const EvalResult& result);
  void Checkpoint(const CheckpointInfo& info);
  void Choices(const CodecChoices& choices);
  void News(const std::string& text);
  // On one thread. `last`: no more will come.
  void Progress(const StatusReply& status, bool last = false);

  // Gives the model and its present weights to `take`, until that fails.
  using ReadWeights =
      std::function<absl::Status(const std::function<absl::Status(const WeightsChunk&)>& take)>;
  // The weights as weights.safetensors; what they are of goes into its metadata.
  absl::Status SaveWeights(const ReadWeights& read);
  absl::Status SaveSummary(const StatusReply& status, Summary::Status outcome,
                           const std::string& error);

 private:
  RunRecorder(const RunDir& dir, std::unique_ptr<MetricsWriter> metrics,
              std::unique_ptr<EventFile> events, Log log, Observer observer);
  void Write(absl::string_view kind, const Record& record);
  void Tell(absl::string_view kind, double seconds, const Record& record);
  // Of TensorBoard. The run goes on without it once that fails.
  void ToEvents(const std::function<absl::Status(EventFile&)>& write);
  double SpeedOf(const StatusReply& status, bool last);
  void WriteScalars(const StatusReply& status, double speed);
  void WriteDetail(const StatusReply& status, bool last);
  double Elapsed() const;

  const RunDir dir_;
  const std::unique_ptr<MetricsWriter> metrics_;
  std::mutex events_mutex_;            // guards events_
  std::unique_ptr<EventFile> events_;  // null once it could not be written
  const Log log_;
  const Observer observer_;
  const Time start_;
  std::atomic<double> seconds_before_{0};  // of the run, when this server began
  const double cpu_before_;                // that the server took to start
  DetailSchedule details_;
  StatusReply detailed_;  // what the last detail that was written was of
  StatusReply observed_;  // and that was told
  uint64_t samples_before_ = 0;
  uint64_t recorded_samples_ = 0;  // trained, and for how long, when the last progress was written
  double recorded_seconds_ = 0;
};

// What a summary says of a run in that state; a pure function, for ps-ctl and tests. Counts are of
// the whole run, times and the rate since it was last resumed, after `samples_before`.
Summary SummaryOf(const StatusReply& status, Summary::Status outcome, const std::string& error,
                  double wall_seconds, uint64_t samples_before);

}  // namespace psgd
