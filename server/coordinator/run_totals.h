// What all workers of a run have done together, since its first server began. No IO: the caller
// hands in the time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "proto/control.pb.h"
#include "proto/journal.pb.h"
#include "server/coordinator/report_histograms.h"

namespace psgd {

// Adds what a worker did to a run's total, except histograms and notes.
void AddReport(const WorkerReport& report, WorkerReport* total);
// Adds what a worker that is gone leaves behind: local steps and a residual that it did not push.
void AddGone(const WorkerReport& unpushed, double residual_norm, WorkerReport* total);

// The totals only grow, except the norm of the residuals, which is that of the residuals that
// workers hold now. Not thread-safe.
class RunTotals {
 public:
  // The run goes on from a checkpoint with this total. Its time counts from Start.
  void GoOnFrom(const WorkerReport& total, const std::vector<EvalResult>& evaluations);
  // Sets the id of that checkpoint, and the first id for a checkpoint of this part of the run.
  void SetPart(uint64_t resumed_from, uint64_t first_checkpoint);
  // Training begins: the wait for the first workers is no part of it. The first call counts.
  void Start(Time now);
  void End(Time now) { ended_ = now; }

  // REQUIRES: the report has not been counted.
  void Count(const WorkerReport& report);
  // Adds a note for people about something that may not be meant. Equal notes count once. If there
  // are many, only the first are kept.
  void Note(const std::string& note);
  // Replaces the evaluation of the same epoch.
  void CountEvaluation(const EvalResult& result);
  // `norm`: of the residuals of all workers.
  void SetResidual(double norm) { sum_.set_residual_norm(norm); }
  // See AddGone.
  void CountGone(const WorkerReport& unpushed, double residual_norm);

  // Without histograms.
  const WorkerReport& sum() const { return sum_; }
  const std::vector<EvalResult>& evaluations() const { return evaluations_; }
  // The samples in sum() from before the run was resumed. SecondsTrained began after them.
  uint64_t samples_before() const { return samples_before_; }
  double SecondsTrained(Time now) const;
  // Sets total, clock, evaluations and seconds.
  void Show(Time now, StatusReply* status) const;

  void Save(Time now, CoordinatorRecord* record) const;
  void Restore(const CoordinatorRecord& record, Time now);

 private:
  WorkerReport sum_;
  uint64_t samples_before_ = 0;
  ReportHistograms histograms_;  // latencies: since this server began
  std::vector<EvalResult> evaluations_;
  std::optional<Time> started_;
  std::optional<Time> ended_;
};

}  // namespace psgd
