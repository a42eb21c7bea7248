#include "server/shard_server.h"

namespace psgd {
namespace {
constexpr Duration kIdle = std::chrono::milliseconds(100);
constexpr Duration kRetry = std::chrono::milliseconds(1);
// Replies that wait for one slow peer; a worker asks again for what is dropped.
constexpr size_t kWaitingPerPeer = 256;

// Nobody waits for the answers to a pull that came before this one's: a peer that does not read keeps no more
// weights from being freed than one pull has.
void ForgetOlderPulls(const DataHeader& newer, std::deque<Message>* waiting) {
  if (!newer.has_pull_reply()) return;
  std::erase_if(*waiting, [&](const Message& message) {
    return message.header.has_pull_reply() && message.header.worker() == newer.worker() &&
           message.header.pull_reply().request() < newer.pull_reply().request();
  });
}
}  // namespace

ShardServer::ShardServer(ShardOptions options, std::unique_ptr<Endpoint> endpoint,
                         Callbacks callbacks, Log log)
    : shard_(options.shard),
      address_(endpoint->address()),
      callbacks_(std::move(callbacks)),
      log_(std::move(log)),
      endpoint_(std::move(endpoint)),
      core_(std::move(options)),
      thread_([this] { Run(); }) {}

ShardServer::~ShardServer() {
  stop_ = true;
  endpoint_->Wake();
  thread_.join();
}

void ShardServer::Do(Task task) {
  auto done = std::make_shared<std::promise<void>>();
  auto finished = done->get_future();
  {
    std::lock_guard lock(tasks_mutex_);
    tasks_.emplace_back(std::move(task), std::move(done));
  }
  endpoint_->Wake();
  finished.wait();
}

absl::Status ShardServer::Execute(const ShardCommand& command) {
  absl::Status status;
  Do([&](Outbox* out) { status = core_.Execute(command, out); });
  return status;
}

std::vector<std::pair<uint32_t, Bytes>> ShardServer::ShareWeights() {
  std::vector<std::pair<uint32_t, Bytes>> weights;
  Do([&](Outbox*) { weights = core_.ShareWeights(); });
  return weights;
}

ShardStatus ShardServer::Status() {
  ShardStatus status;
  Do([&](Outbox*) {
    const ShardStats& stats = core_.stats();
    status.set_shard(shard_);
    status.set_endpoint(address_);
    status.set_slices(static_cast<uint32_t>(core_.slices()));
    status.set_bytes(core_.weight_bytes());
    status.set_pushes(stats.pushes);
    status.set_pulls(stats.pulls);
    status.set_duplicates(stats.duplicates);
    for (const auto& [reason, count] : stats.refused) (*status.mutable_refused())[reason] = count;
    const EndpointStats traffic = endpoint_->stats();
    if (traffic.malformed > 0) (*status.mutable_refused())["garbage"] = traffic.malformed;
    status.set_slowest_clock(core_.SlowestClock());
    status.set_fastest_clock(core_.FastestClock());
    status.set_waiting_pulls(core_.waiting_pulls());
    for (uint64_t count : stats.push_staleness.counts()) status.add_push_staleness(count);
  });
  return status;
}

void ShardServer::RunTasks(Outbox* out) {
  std::deque<std::pair<Task, std::shared_ptr<std::promise<void>>>> tasks;
  {
    std::lock_guard lock(tasks_mutex_);
    tasks.swap(tasks_);
  }
  for (auto& [task, done] : tasks) {
    task(out);
    done->set_value();
  }
}

void ShardServer::SendAll(Outbox* out) {
  for (Outgoing& outgoing : *out) {
    auto waiting = waiting_.find(outgoing.to);
    if (waiting == waiting_.end()) {
      const absl::Status status = endpoint_->Send(outgoing.to, outgoing.message);
      if (!absl::IsResourceExhausted(status)) {
        // A peer that is gone asks again when it is back.
        if (!status.ok()) log_->debug("to peer {}: {}", outgoing.to, status.ToString());
        continue;
      }
      waiting = waiting_.try_emplace(outgoing.to).first;
    }
    ForgetOlderPulls(outgoing.message.header, &waiting->second);
    if (waiting->second.size() < kWaitingPerPeer) {
      waiting->second.push_back(std::move(outgoing.message));
    }
  }
  out->clear();
}

void ShardServer::SendWaiting() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    auto& messages = it->second;
    while (!messages.empty() &&
           !absl::IsResourceExhausted(endpoint_->Send(it->first, messages.front()))) {
      messages.pop_front();
    }
    it = messages.empty() ? waiting_.erase(it) : std::next(it);
  }
}

void ShardServer::Run() {
  Outbox out;
  while (!stop_) {
    RunTasks(&out);
    SendAll(&out);
    if (!waiting_.empty()) SendWaiting();
    if (auto received = endpoint_->Receive(waiting_.empty() ? kIdle : kRetry)) {
      core_.OnMessage(received->from, std::move(received->message), &out);
      SendAll(&out);
    }
    while (auto cut = core_.TakeFinishedCut()) callbacks_.on_cut(shard_, std::move(*cut));
    for (QuarantinedWorker& worker : core_.TakeQuarantined()) {
      callbacks_.on_quarantine(std::move(worker));
    }
    const EndpointStats traffic = endpoint_->stats();
    if (traffic.malformed > logged_malformed_) {
      logged_malformed_ = traffic.malformed;
      log_->warn("shard {}: dropped what is not a psgd message: {} ({} so far)", shard_,
                 traffic.last_malformed, traffic.malformed);
    }
  }
  // A command that comes in while we stop must not wait for ever.
  RunTasks(&out);
}

}  // namespace psgd
