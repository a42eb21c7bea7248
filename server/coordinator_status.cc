// What the coordinator tells of its run, and what it counts for that.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/latency.h"
#include "server/coordinator_core.h"

namespace psgd {
namespace {

using Counts = google::protobuf::RepeatedField<uint64_t>;

void Copy(const CountHistogram& histogram, Counts* counts) {
  counts->Assign(histogram.counts().begin(), histogram.counts().end());
}

// A hostile histogram must not size an allocation.
void AddCounts(const Counts& counts, size_t most_bins, CountHistogram* total) {
  const int bins = std::min(counts.size(), static_cast<int>(most_bins));
  for (int bin = 0; bin < bins; ++bin) total->Add(bin, counts[bin]);
}

}  // namespace

void CoordinatorCore::CountSpeed(uint64_t samples, Time now, MemberState* member) {
  // Reports that follow each other at once, as at the end of a segment, tell nothing of the speed.
  constexpr Duration kShortest = std::chrono::milliseconds(100);
  member->samples_since += samples;
  if (now - member->last_report < kShortest) return;
  if (member->samples_since > 0) {
    member->samples_per_second =
        static_cast<double>(member->samples_since) / Seconds(now - member->last_report);
  }
  member->samples_since = 0;
  member->last_report = now;
}

void CoordinatorCore::CountReport(const WorkerReport& report, MemberState* member) {
  constexpr size_t kStalenessBins = CountHistogram::kLargest + 1;
  AddCounts(report.pull_staleness(), kStalenessBins, &staleness_);
  AddCounts(report.push_latency(), kLatencyBins, &push_latency_);
  AddCounts(report.pull_latency(), kLatencyBins, &pull_latency_);
  AddCounts(report.pull_staleness(), kStalenessBins, &member->pull_staleness);
  AddCounts(report.push_latency(), kLatencyBins, &member->push_latency);
  AddCounts(report.pull_latency(), kLatencyBins, &member->pull_latency);
}

double CoordinatorCore::SecondsTrained(Time now) const {
  if (!started_) return 0;
  return Seconds((ended_ ? *ended_ : now) - *started_);
}

StatusReply CoordinatorCore::Status(Time now) const {
  StatusReply status;
  status.set_state(state_);
  status.set_name(options_.config.name());
  status.set_epochs(options_.config.train().epochs());
  double loss = 0, accuracy = 0;
  int reporting = 0, live = 0;
  bool first_found = false;
  for (const auto& [worker, member] : members_.all()) {
    WorkerStatus* out = status.add_workers();
    *out->mutable_key() = member.key;
    out->set_name(member.name);
    out->set_device(member.device);
    out->set_live(member.live);
    out->set_clock(member.clock);
    out->set_samples_per_second(member.samples_per_second);
    out->set_seconds_since_heard(Seconds(now - member.last_heard));
    out->set_note(member.note);
    out->set_input_stall(member.input_stall);
    out->set_residual_norm(member.residual_norm);
    out->set_leaving(member.leaving);
    Copy(member.pull_staleness, out->mutable_pull_staleness());
    Copy(member.push_latency, out->mutable_push_latency());
    Copy(member.pull_latency, out->mutable_pull_latency());
    // One worker's, and always the same one's: not those of whoever was faster.
    const bool chose = member.choices.tensors_size() > 0;
    if (!first_found && (member.live || chose)) {
      first_found = true;
      if (chose) *status.mutable_choices() = member.choices;
    }
    if (!member.live) continue;
    ++live;
    status.set_samples_per_second(status.samples_per_second() + member.samples_per_second);
    if (member.samples_per_second == 0) continue;
    loss += member.recent_loss;
    accuracy += member.recent_accuracy;
    ++reporting;
  }
  if (state_ == StatusReply::WAITING) {
    status.set_detail(
        absl::StrCat(live, " of ", options_.config.cluster().workers(), " workers are here"));
  } else if (draining_) {
    status.set_detail(drain_reason_);
  } else if (live == 0 && state_ == StatusReply::TRAINING) {
    status.set_detail("no worker is left");
  }
  status.set_clock(total_.clock());
  status.set_train_loss(reporting == 0 ? 0 : loss / reporting);
  status.set_train_accuracy(reporting == 0 ? 0 : accuracy / reporting);
  if (ledger_) {
    status.set_batches_repeated(ledger_->repeated_batches());
    status.set_batches_lost(ledger_->lost_batches());
  }
  *status.mutable_total() = total_;
  if (ledger_) {
    status.set_epoch(ledger_->Done([&](uint32_t worker) {
      const MemberState* const member = members_.Find(worker);
      return member == nullptr ? 0 : member->clock;
    }));
    status.mutable_total()->set_epoch(status.epoch());
  }
  Copy(staleness_, status.mutable_total()->mutable_pull_staleness());
  Copy(push_latency_, status.mutable_total()->mutable_push_latency());
  Copy(pull_latency_, status.mutable_total()->mutable_pull_latency());
  status.mutable_evaluations()->Add(evaluations_.begin(), evaluations_.end());
  *status.mutable_hyper() = hyper_;
  status.set_seconds(SecondsTrained(now));
  *status.mutable_config() = options_.config;
  return status;
}

}  // namespace psgd
