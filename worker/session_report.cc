#include "worker/session_report.h"

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

void SessionReport::AddTo(const EndpointStats& traffic, const SessionStats& stats,
                          WorkerReport* report) {
  report->set_bytes_pushed(report->bytes_pushed() + traffic.bytes_sent -
                           reported_traffic_.bytes_sent);
  report->set_bytes_pulled(report->bytes_pulled() + traffic.bytes_received -
                           reported_traffic_.bytes_received);
  report->set_resent(report->resent() + stats.resent - reported_.resent);
  AddSince(reported_.pull_staleness, stats.pull_staleness, report->mutable_pull_staleness());
  AddSince(reported_.push_latency, stats.push_latency, report->mutable_push_latency());
  AddSince(reported_.pull_latency, stats.pull_latency, report->mutable_pull_latency());
  for (const auto& [reason, count] : stats.refused) {
    auto earlier = reported_.refused.find(reason);
    const uint64_t known = earlier == reported_.refused.end() ? 0 : earlier->second;
    if (count > known) (*report->mutable_refused())[reason] += count - known;
  }
  report->set_detour(traffic.detour);
  reported_traffic_ = traffic;
  reported_ = stats;
}

}  // namespace psgd
