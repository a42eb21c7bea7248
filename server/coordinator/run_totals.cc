#include "server/coordinator/run_totals.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "proto/trained.h"

namespace psgd {

void RunTotals::GoOnFrom(const WorkerReport& total, const std::vector<EvalResult>& evaluations) {
  sum_ = total;
  samples_before_ = sum_.samples();
  sum_.clear_residual_norm();  // of workers that are gone; new workers report their own
  sum_.clear_notes();          // likewise
  evaluations_ = evaluations;
}

void RunTotals::SetPart(uint64_t resumed_from, uint64_t first_checkpoint) {
  sum_.set_resumed_from(resumed_from);
  sum_.set_first_checkpoint(first_checkpoint);
}

void RunTotals::Note(const std::string& note) {
  constexpr int kMostNotes = 8;
  if (note.empty() || sum_.notes_size() >= kMostNotes) return;
  if (std::ranges::find(sum_.notes(), note) == sum_.notes().end()) sum_.add_notes(note);
}

void RunTotals::CountEvaluation(const EvalResult& result) {
  const auto same = std::ranges::find(evaluations_, result.epoch(), &EvalResult::epoch);
  if (same == evaluations_.end()) {
    evaluations_.push_back(result);
  } else {
    *same = result;
  }
}

void RunTotals::Start(Time now) {
  if (!started_) started_ = now;
}

namespace {

void AddLostResidual(double norm, WorkerReport* total) {
  total->set_residual_norm_lost(std::hypot(total->residual_norm_lost(), norm));
}

}  // namespace

void AddReport(const WorkerReport& report, WorkerReport* total) {
  WorkerReport& sum = *total;
  sum.set_clock(std::max(sum.clock(), report.clock()));
  AddSteps(report, &sum);
  if (report.has_first_loss() && !sum.has_first_loss()) sum.set_first_loss(report.first_loss());
  sum.set_bytes_pushed(sum.bytes_pushed() + report.bytes_pushed());
  sum.set_bytes_pulled(sum.bytes_pulled() + report.bytes_pulled());
  sum.set_seconds_data(sum.seconds_data() + report.seconds_data());
  sum.set_seconds_compute(sum.seconds_compute() + report.seconds_compute());
  sum.set_seconds_encode(sum.seconds_encode() + report.seconds_encode());
  sum.set_seconds_wait(sum.seconds_wait() + report.seconds_wait());
  sum.set_seconds_wire(sum.seconds_wire() + report.seconds_wire());
  sum.set_seconds_apply(sum.seconds_apply() + report.seconds_apply());
  sum.set_seconds_cpu(sum.seconds_cpu() + report.seconds_cpu());
  sum.set_resent(sum.resent() + report.resent());
  for (const auto& [reason, count] : report.refused()) (*sum.mutable_refused())[reason] += count;
  if (const double lost = report.residual_norm_lost(); lost > 0 && std::isfinite(lost)) {
    AddLostResidual(lost, total);
  }
}

void RunTotals::Count(const WorkerReport& report) {
  AddReport(report, &sum_);
  histograms_.Add(report);
}

void AddGone(const WorkerReport& unpushed, double residual_norm, WorkerReport* total) {
  if (unpushed.steps() > 0) AddSteps(unpushed, total->mutable_unpushed());
  AddLostResidual(residual_norm, total);
}

void RunTotals::CountGone(const WorkerReport& unpushed, double residual_norm) {
  AddGone(unpushed, residual_norm, &sum_);
}

double RunTotals::SecondsTrained(Time now) const {
  if (!started_) return 0;
  return Seconds((ended_ ? *ended_ : now) - *started_);
}

void RunTotals::Show(Time now, StatusReply* status) const {
  *status->mutable_total() = sum_;
  histograms_.CopyTo(status->mutable_total());
  status->set_clock(sum_.clock());
  status->mutable_evaluations()->Assign(evaluations_.begin(), evaluations_.end());
  status->set_seconds(SecondsTrained(now));
}

void RunTotals::Save(Time now, CoordinatorRecord* record) const {
  const std::vector<uint64_t>& staleness = histograms_.pull_staleness.counts();
  *record->mutable_total() = sum_;
  record->mutable_staleness()->Assign(staleness.begin(), staleness.end());
  record->mutable_evaluations()->Assign(evaluations_.begin(), evaluations_.end());
  record->set_samples_before(samples_before_);
  record->set_seconds_trained(SecondsTrained(now));
  record->set_started(started_.has_value());
  record->set_ended(ended_.has_value());
}

void RunTotals::Restore(const CoordinatorRecord& record, Time now) {
  sum_ = record.total();
  histograms_.pull_staleness = CountHistogram::FromCounts(record.staleness());
  evaluations_.assign(record.evaluations().begin(), record.evaluations().end());
  samples_before_ = record.samples_before();
  const Time start = now - std::chrono::duration_cast<Duration>(
                               std::chrono::duration<double>(record.seconds_trained()));
  if (record.started()) started_ = start;
  if (record.ended()) ended_ = now;
  if (started_ && !ended_) sum_.set_counts_incomplete(true);  // they are stored once a second
}

}  // namespace psgd
