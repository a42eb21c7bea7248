#include "worker/heartbeat.h"

#include <utility>

namespace psgd {

Heartbeat::Heartbeat(ControlClient* client, const JoinReply& joined, Log log)
    : client_(client), log_(std::move(log)), lease_(joined) {
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
    changed_.notify_all();
  }
  thread_.join();
}

void Heartbeat::Record(const std::function<void(WorkerReport*)>& add) {
  std::lock_guard lock(mutex_);
  add(&lease_.report());
}

absl::Status Heartbeat::Flush() {
  std::lock_guard one_at_a_time(sending_);
  HeartbeatRequest request;
  {
    std::lock_guard lock(mutex_);
    request = lease_.Beat();
  }
  const Time asked = SteadyNow();
  const std::string server = client_->server();
  const auto reply = client_->Heartbeat(request, lease_.attempt());
  std::lock_guard lock(mutex_);
  if (!reply.ok() && lease_.status().ok()) {
    log_->warn("heartbeat: {}", std::string(reply.status().message()));
  }
  const LeaseCore::Servers servers = lease_.OnAnswer(reply, asked, SteadyNow());
  if (servers.what == LeaseCore::Servers::kOutdated) client_->TryAnotherThan(server);
  Tell(servers);
  return reply.status();
}

void Heartbeat::Tell(const LeaseCore::Servers& servers) {
  if (servers.another_leads) log_->warn("{} leads the run now", servers.addresses[0]);
  switch (servers.what) {
    case LeaseCore::Servers::kReplaced:
      return client_->SetServers(servers.addresses);
    case LeaseCore::Servers::kAdded:
      return client_->AddServers(servers.addresses);
    case LeaseCore::Servers::kOutdated:  // SetLeaders hears this from the server that answers
    case LeaseCore::Servers::kAsBefore:
      return;
  }
}

void Heartbeat::SetLeaders(const Leaders& leaders) {
  std::lock_guard lock(mutex_);
  Tell(lease_.OnLeaders(leaders));
  changed_.notify_all();  // the next heartbeat may be due sooner
}

void Heartbeat::SetHyper(const HyperParameters& hyper) {
  std::lock_guard lock(mutex_);
  lease_.SetHyper(hyper);
}

HyperParameters Heartbeat::hyper() const {
  std::lock_guard lock(mutex_);
  return lease_.hyper();
}

bool Heartbeat::drain() const {
  std::lock_guard lock(mutex_);
  return lease_.drain();
}

void Heartbeat::SetEndpoints(std::vector<std::string> endpoints) {
  std::lock_guard lock(mutex_);
  lease_.SetEndpoints(std::move(endpoints));
}

std::optional<std::vector<std::string>> Heartbeat::TakeMove() {
  std::lock_guard lock(mutex_);
  auto moved = lease_.TakeMove();
  if (moved) log_->info("shards moved");
  return moved;
}

std::optional<Time> Heartbeat::leave_asked() const {
  std::lock_guard lock(mutex_);
  return lease_.leave_asked();
}

absl::Status Heartbeat::status() const {
  std::lock_guard lock(mutex_);
  return lease_.status();
}

void Heartbeat::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_ && lease_.status().ok()) {
    lock.unlock();
    (void)Flush();  // a failure is kept in the lease, which the trainer reads
    lock.lock();
    const Time sent = SteadyNow();
    while (!stop_ && SteadyNow() < sent + lease_.period()) {
      changed_.wait_for(lock, sent + lease_.period() - SteadyNow());
    }
  }
}

}  // namespace psgd
