#include "worker/lease_core.h"

#include <algorithm>
#include <utility>

namespace psgd {
namespace {
constexpr Duration kLongestPeriod = std::chrono::milliseconds(500);
}  // namespace

LeaseCore::LeaseCore(const JoinReply& joined)
    : key_(joined.key()),
      period_(std::min<Duration>(Milliseconds(joined.lease_ms()) / 4, kLongestPeriod)),
      attempt_(Milliseconds(joined.lease_ms()) / 3) {}

HeartbeatRequest LeaseCore::Beat() {
  HeartbeatRequest request;
  *request.mutable_key() = key_;
  request.set_number(++beats_);
  soon_ = std::max(soon_ - 1, 0);
  request.mutable_report()->Swap(&report_);
  // These are levels, not counts: they stand until they change.
  report_.set_clock(request.report().clock());
  report_.set_residual_norm(request.report().residual_norm());
  report_.set_detour(request.report().detour());
  MoveSpans(request.mutable_report());
  return request;
}

LeaseCore::Servers LeaseCore::OnAnswer(const absl::StatusOr<HeartbeatReply>& reply, Time asked,
                                       Time answered) {
  if (!reply.ok()) {
    status_ = reply.status();
    return {};
  }
  SetHyper(reply->hyper());
  Servers servers;
  if (reply->has_leaders()) servers = OnLeaders(reply->leaders());
  if (servers.what == Servers::kOutdated) return servers;
  CompareEndpoints({reply->endpoints().begin(), reply->endpoints().end()});
  drain_ = reply->drain();
  if (reply->leave() && !leave_asked_) leave_asked_ = answered;
  CompareClocks(reply->clock_ns(), asked, answered);
  return servers;
}

LeaseCore::Servers LeaseCore::OnLeaders(const Leaders& leaders) {
  if (leaders.epoch() < run_epoch_) return {Servers::kOutdated, {}, false};
  Servers servers;
  servers.addresses.assign(leaders.addresses().begin(), leaders.addresses().end());
  if (servers.addresses.empty()) return {};
  servers.another_leads = !leader_.empty() && leader_ != servers.addresses[0];
  if (servers.another_leads) soon_ = kSoonBeats;
  leader_ = servers.addresses[0];
  // Answers overtake one another: one that lacks a server that another of the same epoch named may
  // be the older.
  servers.what = leaders.epoch() == run_epoch_ ? Servers::kAdded : Servers::kReplaced;
  run_epoch_ = leaders.epoch();
  return servers;
}

void LeaseCore::SetHyper(const HyperParameters& hyper) {
  if (hyper.version() > hyper_.version()) hyper_ = hyper;
}

void LeaseCore::CompareEndpoints(std::vector<std::string> endpoints) {
  if (endpoints.empty() || endpoints_.empty() || endpoints == endpoints_) return;
  endpoints_ = endpoints;
  moved_ = std::move(endpoints);
  soon_ = kSoonBeats;
}

void LeaseCore::CompareClocks(int64_t server_ns, Time asked, Time answered) {
  const Duration round_trip = answered - asked;
  if (round_trip >= best_round_trip_) return;
  best_round_trip_ = round_trip;
  const Duration ahead = Time(server_ns) - (asked + round_trip / 2);
  // The round trip explains a smaller difference: both clocks are those of one machine.
  server_clock_ = ahead > -round_trip && ahead < round_trip ? Duration(0) : ahead;
}

void LeaseCore::MoveSpans(WorkerReport* report) {
  if (!server_clock_) {
    report_.mutable_spans()->Swap(report->mutable_spans());
    return;
  }
  for (TraceSpan& span : *report->mutable_spans()) {
    span.set_start_ns(span.start_ns() + server_clock_->count());
  }
}

}  // namespace psgd
