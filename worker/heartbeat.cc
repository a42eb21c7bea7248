#include "worker/heartbeat.h"

#include <algorithm>
#include <utility>

namespace psgd {
namespace {
constexpr Duration kLongestPeriod = std::chrono::milliseconds(500);
}  // namespace

Heartbeat::Heartbeat(ControlClient* client, const JoinReply& joined, Log log)
    : client_(client),
      key_(joined.key()),
      period_(std::min<Duration>(Milliseconds(joined.lease_ms()) / 4, kLongestPeriod)),
      attempt_(Milliseconds(joined.lease_ms()) / 3),
      log_(std::move(log)) {
  // The server may die before it answers anything else.
  SetLeaders(joined.leaders());
}

void Heartbeat::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Heartbeat::Stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    stop_changed_.notify_all();
  }
  thread_.join();
}

void Heartbeat::Record(const std::function<void(WorkerReport*)>& add) {
  std::lock_guard lock(mutex_);
  add(&report_);
}

void Heartbeat::SetHyper(const HyperParameters& hyper) {
  std::lock_guard lock(mutex_);
  if (hyper.version() > hyper_.version()) hyper_ = hyper;
}

HyperParameters Heartbeat::hyper() const {
  std::lock_guard lock(mutex_);
  return hyper_;
}

bool Heartbeat::drain() const {
  std::lock_guard lock(mutex_);
  return drain_;
}

std::optional<Time> Heartbeat::leave_asked() const {
  std::lock_guard lock(mutex_);
  return leave_asked_;
}

absl::Status Heartbeat::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

void Heartbeat::CompareClocks(int64_t server_ns, Time asked, Time answered) {
  const Duration round_trip = answered - asked;
  if (round_trip >= best_round_trip_) return;
  best_round_trip_ = round_trip;
  const Duration ahead = Time(server_ns) - (asked + round_trip / 2);
  // A difference that the way there and back explains: it is the same machine's clock.
  server_clock_ = ahead > -round_trip && ahead < round_trip ? Duration(0) : ahead;
}

void Heartbeat::PutSpansBack(WorkerReport* report) {
  if (!server_clock_) {
    report_.mutable_spans()->Swap(report->mutable_spans());
    return;
  }
  for (TraceSpan& span : *report->mutable_spans()) {
    span.set_start_ns(span.start_ns() + server_clock_->count());
  }
}

absl::Status Heartbeat::Flush() { return Send(); }

absl::Status Heartbeat::Send() {
  std::lock_guard one_at_a_time(sending_);
  HeartbeatRequest request;
  *request.mutable_key() = key_;
  request.set_number(++sent_);
  {
    std::lock_guard lock(mutex_);
    request.mutable_report()->Swap(&report_);
    // These are levels, not counts: they stand until they change.
    report_.set_clock(request.report().clock());
    report_.set_residual_norm(request.report().residual_norm());
    PutSpansBack(request.mutable_report());
  }
  const Time asked = SteadyNow();
  const auto reply = client_->Heartbeat(request, attempt_);
  const Time answered = SteadyNow();
  if (reply.ok()) SetHyper(reply->hyper());
  if (reply.ok() && reply->has_leaders()) {
    const bool old = [&] {
      std::lock_guard lock(mutex_);
      return reply->leaders().epoch() < run_epoch_;
    }();
    // Of a server that does not know yet that another leads.
    if (old) {
      client_->TryAnother();
      return absl::OkStatus();
    }
    SetLeaders(reply->leaders());
  }
  if (reply.ok()) CompareEndpoints({reply->endpoints().begin(), reply->endpoints().end()});
  std::lock_guard lock(mutex_);
  if (!reply.ok()) {
    if (status_.ok()) log_->warn("heartbeat: {}", std::string(reply.status().message()));
    status_ = reply.status();
    return status_;
  }
  drain_ = reply->drain();
  if (reply->leave() && !leave_asked_) leave_asked_ = answered;
  CompareClocks(reply->clock_ns(), asked, answered);
  return absl::OkStatus();
}

void Heartbeat::SetEndpoints(std::vector<std::string> endpoints) {
  std::lock_guard lock(mutex_);
  endpoints_ = std::move(endpoints);
}

void Heartbeat::CompareEndpoints(std::vector<std::string> endpoints) {
  std::lock_guard lock(mutex_);
  if (endpoints.empty() || endpoints_.empty() || endpoints == endpoints_) return;
  log_->info("shards moved");
  endpoints_ = endpoints;
  moved_ = std::move(endpoints);
}

void Heartbeat::SetLeaders(const Leaders& leaders) {
  const std::vector<std::string> servers(leaders.addresses().begin(), leaders.addresses().end());
  std::lock_guard lock(mutex_);
  if (servers.empty() || leaders.epoch() < run_epoch_) return;
  if (!leader_.empty() && leader_ != servers[0]) log_->warn("{} leads the run now", servers[0]);
  leader_ = servers[0];
  // Answers overtake one another: one that lacks a server that another of the same epoch knew may
  // be the older.
  if (leaders.epoch() == run_epoch_) return client_->AddServers(servers);
  run_epoch_ = leaders.epoch();
  client_->SetServers(servers);
}

std::optional<std::vector<std::string>> Heartbeat::TakeMove() {
  std::lock_guard lock(mutex_);
  return std::exchange(moved_, std::nullopt);
}

void Heartbeat::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_ && status_.ok()) {
    lock.unlock();
    (void)Send();  // a failure is kept in status_, which the trainer reads
    lock.lock();
    stop_changed_.wait_for(lock, period_, [&] { return stop_; });
  }
}

}  // namespace psgd
