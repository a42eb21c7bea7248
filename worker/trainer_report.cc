// What a trainer tells of its steps: to the coordinator with its heartbeats, and in its log.
#include <algorithm>
#include <utility>

#include "common/cpu_time.h"
#include "worker/trainer.h"

namespace psgd {
namespace {

// What was counted since `before` of the same histogram.
void AddSince(const CountHistogram& before, const CountHistogram& now,
              google::protobuf::RepeatedField<uint64_t>* report) {
  const auto& counts = now.counts();
  while (report->size() < static_cast<int>(counts.size())) report->Add(0);
  for (size_t i = 0; i < counts.size(); ++i) {
    const uint64_t earlier = i < before.counts().size() ? before.counts()[i] : 0;
    *report->Mutable(static_cast<int>(i)) += counts[i] - earlier;
  }
}

}  // namespace

void Trainer::Acknowledged(const Message& push, Time sent) {
  if (push_log_) push_log_->Acknowledged(push);
  trace_.AddPush(push.header, sent, SteadyNow());
}

void Trainer::Report(const Network::Result& result) {
  const EndpointStats traffic = session_->traffic();
  const SessionStats& stats = session_->stats();
  const double cpu_before = std::exchange(cpu_seconds_, ProcessCpuSeconds());
  heartbeat_->Record([&](WorkerReport* report) {
    // Not this step's: what is not acknowledged may have to be done again by another worker.
    report->set_clock(session_->AcknowledgedClock());
    report->set_steps(report->steps() + 1);
    report->set_samples(report->samples() + result.counted);
    report->set_loss_sum(report->loss_sum() + result.loss_sum);
    report->set_correct(report->correct() + result.correct);
    report->set_bytes_pushed(report->bytes_pushed() + traffic.bytes_sent -
                             reported_traffic_.bytes_sent);
    report->set_bytes_pulled(report->bytes_pulled() + traffic.bytes_received -
                             reported_traffic_.bytes_received);
    report->set_bytes_pushed_dense(report->bytes_pushed_dense() + dense_bytes_);
    report->set_bytes_pulled_dense(report->bytes_pulled_dense() + dense_bytes_);
    report->set_seconds_data(report->seconds_data() + seconds_data_);
    report->set_seconds_compute(report->seconds_compute() + seconds_compute_);
    report->set_seconds_encode(report->seconds_encode() + seconds_encode_);
    report->set_seconds_wait(report->seconds_wait() + waited_.wait);
    report->set_seconds_wire(report->seconds_wire() + waited_.wire);
    report->set_seconds_apply(report->seconds_apply() + waited_.apply);
    report->set_seconds_cpu(report->seconds_cpu() +
                            (cpu_seconds_ - cpu_before) / options_.workers_here);
    report->set_resent(report->resent() + stats.resent - reported_.resent);
    AddSince(reported_.pull_staleness, stats.pull_staleness, report->mutable_pull_staleness());
    AddSince(reported_.push_latency, stats.push_latency, report->mutable_push_latency());
    AddSince(reported_.pull_latency, stats.pull_latency, report->mutable_pull_latency());
    trace_.MoveTo(report);
    for (const auto& [reason, count] : stats.refused) {
      auto earlier = reported_.refused.find(reason);
      const uint64_t known = earlier == reported_.refused.end() ? 0 : earlier->second;
      if (count > known) (*report->mutable_refused())[reason] += count - known;
    }
  });
  seconds_data_ = seconds_compute_ = seconds_encode_ = 0;
  waited_ = {};
  reported_traffic_ = traffic;
  reported_ = stats;
}

void Trainer::ReportLaunches(uint64_t clock, const Network::Result& result) {
  constexpr int kSettled = 3;  // steps after which all are replayed, if any are
  if (!options_.gpus.empty() && ++steps_ == kSettled) {
    const absl::Status& recorded = network_->recorded();
    if (recorded.ok()) {
      options_.log->info("steps are recorded: each is one launch");
    } else {
      options_.log->warn("steps are launched kernel by kernel: {}", recorded.ToString());
    }
  }
  if (result.repeated == 0) return;
  repeated_steps_ += result.repeated;
  options_.log->info(
      "step {}: gradients left fp16 and were computed again, now with a loss scale of {}; {} times "
      "in {} steps",
      clock, network_->loss_scale(), repeated_steps_, steps_);
}

void Trainer::ReportDamage() {
  const uint64_t damaged = data_->damage ? data_->damage->count() : 0;
  if (damaged == reported_damage_) return;
  reported_damage_ = damaged;
  options_.log->warn("{} damaged samples were read and left out so far, the last: {}", damaged,
                     data_->damage->last());
}

}  // namespace psgd
