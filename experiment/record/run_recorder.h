// Writes a run's files on its server: metrics.jsonl and TensorBoard's event file during the run,
// then summary.json and weights.safetensors.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
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
  // Receives every record that is written, and details more often. Called on any thread. Must not
  // block.
  using Observer = std::function<void(const Record& record)>;

  // `config`: YAML, for readers of the event file.
  static absl::StatusOr<std::unique_ptr<RunRecorder>> Open(const RunDir& dir,
                                                           const std::string& config, Log log,
                                                           Observer observer = nullptr);
  // Opens the files of a run that another server led before. Times continue from the last record.
  static absl::StatusOr<std::unique_ptr<RunRecorder>> GoOn(const RunDir& dir,
                                                           const std::string& config, Log log,
                                                           Observer observer = nullptr);

  // The run goes on from that checkpoint, so earlier evaluations after that epoch no longer count.
  // Call this before anything is written. Readers are told once training goes on.
  void Resumed(uint64_t checkpoint, double epoch);
  // The state of the run when this server begins: times continue from there. Rates ignore the
  // samples trained before a resume. Call this before the first Progress.
  void BeginsAt(const StatusReply& status, uint64_t samples_before);
  void Evaluation(const EvalResult& result);
  void Checkpoint(const CheckpointInfo& info);
  void Choices(const CodecChoices& choices);
  void News(const std::string& text);
  // Call this on one thread. `last`: no more progress will come.
  void Progress(const StatusReply& status, bool last = false);

  // Calls `take` with the model and its present weights, until `take` fails.
  using ReadWeights =
      std::function<absl::Status(const std::function<absl::Status(const WeightsChunk&)>& take)>;
  // Writes weights.safetensors. Its metadata describes the model.
  absl::Status SaveWeights(const ReadWeights& read);
  absl::Status SaveSummary(const StatusReply& status, Summary::Status outcome,
                           const std::string& error);

 private:
  RunRecorder(const RunDir& dir, std::unique_ptr<MetricsWriter> metrics,
              std::unique_ptr<EventFile> events, Log log, Observer observer);
  void Write(absl::string_view kind, const Record& record);
  void Tell(absl::string_view kind, double seconds, const Record& record);
  // Writes to TensorBoard's file. After an error, the run goes on without that file.
  void ToEvents(const std::function<absl::Status(EventFile&)>& write);
  double SpeedOf(const StatusReply& status, bool last);
  void WriteScalars(const StatusReply& status, double speed);
  void WriteDetail(const StatusReply& status, bool last);
  double Elapsed() const;
  void WriteResumed();

  const RunDir dir_;
  const std::unique_ptr<MetricsWriter> metrics_;
  std::mutex events_mutex_;            // guards events_
  std::unique_ptr<EventFile> events_;  // null after a write error
  const Log log_;
  const Observer observer_;
  const Time start_;
  std::atomic<double> seconds_before_{0};   // the run's age when this server began
  std::optional<double> seconds_of_parts_;  // before the resume; nothing: there was none
  std::mutex resumed_mutex_;                // guards resumed_
  Record resumed_;                          // still to be written; null: nothing is
  const double cpu_before_;                 // CPU time that the server needed to start
  DetailSchedule details_;
  StatusReply detailed_;  // the status of the last detail written
  StatusReply observed_;  // the status of the last detail told to observer_
  uint64_t samples_before_ = 0;
  uint64_t recorded_samples_ = 0;  // samples trained, and for how long, at the last progress record
  double recorded_seconds_ = 0;
};

// The summary of a run in that state. A pure function, for ps-ctl and tests. Counts and the wall
// time cover the whole run. The rate counts since the last resume, after `samples_before`.
// `wall_seconds`: since then; `seconds_before`: of the parts before it; nothing: the run was not
// resumed.
Summary SummaryOf(const StatusReply& status, Summary::Status outcome, const std::string& error,
                  double wall_seconds, uint64_t samples_before,
                  std::optional<double> seconds_before = std::nullopt);

}  // namespace psgd
