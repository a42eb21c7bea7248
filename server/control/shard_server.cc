#include "server/control/shard_server.h"

#include "absl/strings/str_cat.h"
#include "common/latency.h"

namespace psgd {
namespace {
constexpr Duration kIdle = std::chrono::milliseconds(100);
constexpr Duration kFullQueueRetry = std::chrono::milliseconds(1);
// Replies that wait for one slow peer; a worker asks again for what is dropped.
constexpr size_t kWaitingPerPeer = 256;
// Steps of a shard with a journal that are written down together.
constexpr size_t kGroupBytes = 8u << 20;
constexpr int kGroupMessages = 256;

// Nobody waits for the answers to a pull that came before this one's: a peer that does not read
// keeps no more weights from being freed than one pull has.
void ForgetOlderPulls(const DataHeader& newer, std::deque<Message>* waiting) {
  if (!newer.has_pull_reply()) return;
  std::erase_if(*waiting, [&](const Message& message) {
    return message.header.has_pull_reply() && message.header.worker() == newer.worker() &&
           message.header.pull_reply().request() < newer.pull_reply().request();
  });
}
}  // namespace

ShardServer::ShardServer(uint32_t index, std::string address, std::unique_ptr<DurableShard> shard,
                         std::unique_ptr<Endpoint> endpoint, ShardCallbacks callbacks, Log log)
    : shard_(index),
      address_(std::move(address)),
      callbacks_(std::move(callbacks)),
      log_(std::move(log)),
      endpoint_(std::move(endpoint)),
      durable_(std::move(shard)),
      trace_(callbacks_.on_spans ? std::make_optional<ShardTrace>(index, callbacks_.trace_steps)
                                 : std::nullopt),
      written_entries_(durable_->entries()),
      thread_([this] { Run(); }) {}

ShardServer::~ShardServer() { Stop(); }

void ShardServer::Stop() {
  {
    std::lock_guard lock(tasks_mutex_);
    if (std::exchange(stopped_, true)) return;
    stop_ = true;
    endpoint_->Wake();
  }
  thread_.join();
  endpoint_.reset();
  durable_.reset();
}

std::future<bool> ShardServer::Start(Task task) {
  auto done = std::make_shared<std::promise<bool>>();
  auto finished = done->get_future();
  std::lock_guard lock(tasks_mutex_);
  if (stopped_) {
    done->set_value(false);
    return finished;
  }
  tasks_.emplace_back(std::move(task), std::move(done));
  endpoint_->Wake();
  return finished;
}

std::future<absl::Status> ShardServer::Execute(const ShardCommand& command, uint64_t number) {
  auto status = std::make_shared<absl::Status>();
  auto done =
      Start([this, status, command, number] { *status = durable_->Execute(command, number); });
  return std::async(std::launch::deferred, [status, done = std::move(done)]() mutable {
    return done.get() ? *status : absl::UnavailableError("the shard was moved");
  });
}

void ShardServer::CheckpointDone(uint64_t checkpoint) {
  Do([&] { durable_->CheckpointDone(checkpoint); });
}

absl::Status ShardServer::SaveImage(const ShardImage& image) {
  const absl::Status status = durable_->journal()->SaveImage(image);
  Do([&] { durable_->ImageSaved(status); });
  return status;
}

absl::Status ShardServer::Weights(
    const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take) {
  std::vector<std::pair<uint32_t, Bytes>> weights;
  if (!Do([&] { weights = durable_->core().ShareWeights(); })) {
    return absl::UnavailableError("the shard was moved");
  }
  for (const auto& [slice, values] : weights) PSGD_RETURN_IF_ERROR(take(slice, values));
  return absl::OkStatus();
}

absl::StatusOr<ShardImage> ShardServer::Give() {
  absl::StatusOr<ShardImage> image = absl::UnavailableError("the shard was moved");
  Do([&] { image = durable_->Give(); });
  return image;
}

absl::StatusOr<GivenSteps> ShardServer::GiveSince(uint64_t entry, bool last) {
  absl::StatusOr<GivenSteps> given = absl::UnavailableError("the shard was moved");
  Do([&] { given = durable_->GiveSince(entry, last); });
  return given;
}

absl::Status ShardServer::Follow(const GivenSteps& given) {
  absl::Status followed = absl::UnavailableError("the shard was moved");
  Do([&] {
    followed = durable_->Follow(given.steps.first, given.steps.entries);
    durable_->CheckpointDone(given.checkpoint_done);
  });
  return followed;
}

void ShardServer::KeepOn() {
  Do([this] { durable_->KeepOn(); });
}

ShardStatus ShardServer::Status() {
  ShardStatus status;
  Do([&] {
    const ShardCore& core = durable_->core();
    const ShardStats& stats = core.stats();
    status.set_shard(shard_);
    status.set_endpoint(address_);
    status.set_slices(static_cast<uint32_t>(core.slices()));
    status.set_bytes(core.weight_bytes());
    status.set_pushes(stats.pushes);
    status.set_pulls(stats.pulls);
    status.set_duplicates(stats.duplicates);
    for (const auto& [reason, count] : stats.refused) (*status.mutable_refused())[reason] = count;
    const EndpointStats traffic = endpoint_->stats();
    for (const auto& [reason, count] :
         {std::pair("garbage", traffic.malformed), std::pair("stranger", traffic.strangers),
          std::pair("impostor", traffic.impostors),
          std::pair("over_budget", traffic.over_budget)}) {
      if (count > 0) (*status.mutable_refused())[reason] = count;
    }
    status.set_slowest_clock(core.SlowestClock());
    status.set_fastest_clock(core.FastestClock());
    status.set_journal_entries(durable_->entries());
    status.set_journal_bytes(durable_->journal_bytes());
    status.set_stalled(std::string(durable_->stalled().message()));
    status.set_waiting_pulls(core.waiting_pulls());
    uint64_t queued = core.held_bytes();
    for (const auto& [peer, messages] : waiting_) {
      for (const Message& message : messages) queued += message.PayloadBytes();
    }
    status.set_queue_bytes(queued);
    for (uint64_t count : journal_latency_.counts()) status.add_journal_latency(count);
    for (uint64_t count : stats.push_staleness.counts()) status.add_push_staleness(count);
  });
  return status;
}

absl::StatusOr<FollowerStart> ShardServer::BeginFollower(
    const std::function<void(uint64_t last)>& connect) {
  absl::StatusOr<FollowerStart> start = absl::UnavailableError("the server ends");
  Do([&] {
    start = durable_->StartForFollower();
    if (start.ok()) connect(start->last());
  });
  return start;
}

std::vector<ShardServer::Done> ShardServer::RunTasks() {
  std::deque<std::pair<Task, Done>> tasks;
  {
    std::lock_guard lock(tasks_mutex_);
    tasks.swap(tasks_);
  }
  std::vector<Done> done;
  for (auto& [task, promise] : tasks) {
    task();
    done.push_back(std::move(promise));
  }
  return done;
}

void ShardServer::SendAll(Outbox* out) {
  for (Outgoing& outgoing : *out) {
    pull_times_.Stamp(&outgoing.message.header, SteadyNow());
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

void ShardServer::ReceiveSome() {
  Duration timeout = waiting_.empty() ? kIdle : kFullQueueRetry;
  for (int i = 0; i < kGroupMessages && durable_->uncommitted_bytes() < kGroupBytes; ++i) {
    auto received = endpoint_->Receive(timeout);
    if (!received) return;
    pull_times_.Begin(received->message.header, SteadyNow());
    if (trace_) trace_->Begin(received->message.header);
    durable_->OnMessage(received->from, std::move(received->message));
    if (trace_) trace_->End();
    pull_times_.End(SteadyNow());
    // Without a journal nothing is gained by waiting for more.
    if (durable_->journal() == nullptr) return;
    timeout = Duration(0);
  }
}

void ShardServer::CommitAll(Outbox* out) {
  const uint64_t written = durable_->entries();
  const Time start = SteadyNow();
  durable_->Commit(out);
  ReportStall();
  if (durable_->entries() > written) journal_latency_.Add(LatencyBin(SteadyNow() - start));
  written_entries_ = durable_->entries();
  if (durable_->stalled().ok()) written_order_ = durable_->core().last_order();
  const bool answered = !out->empty();
  SendAll(out);
  if (answered && callbacks_.on_sent) callbacks_.on_sent();
  if (trace_ && trace_->any() && durable_->stalled().ok()) callbacks_.on_spans(trace_->Committed());
  while (auto cut = durable_->TakeFinishedCut()) {
    callbacks_.on_cut(shard_, std::move(*cut));
  }
  for (QuarantinedWorker& worker : durable_->core().TakeQuarantined()) {
    callbacks_.on_quarantine(std::move(worker));
  }
  if (auto image = durable_->TakeDueImage()) callbacks_.on_image(shard_, std::move(*image));
}

void ShardServer::ReportStall() {
  switch (stalls_.See(!durable_->stalled().ok(), SteadyNow())) {
    case StallReport::News::kNone:
      return;
    case StallReport::News::kWaits:
      log_->error("shard {}: waits, since its journal cannot be written: {}", shard_,
                  std::string(durable_->stalled().message()));
      return;
    case StallReport::News::kGoesOn:
      log_->info("shard {}: its journal can be written again; goes on, after it waited {}", shard_,
                 stalls_.times() == 1 ? "once" : absl::StrCat(stalls_.times(), " times"));
      return;
  }
}

void ShardServer::ReportTrouble() {
  const EndpointStats traffic = endpoint_->stats();
  if (traffic.malformed > logged_malformed_) {
    logged_malformed_ = traffic.malformed;
    log_->warn("shard {}: dropped what is not a psgd message: {} ({} so far)", shard_,
               traffic.last_malformed, traffic.malformed);
  }
  const uint64_t turned_away = traffic.strangers + traffic.impostors + traffic.over_budget;
  // Who tries again and again does not fill the disk.
  if (turned_away >= 2 * logged_turned_away_ && turned_away > 0) {
    logged_turned_away_ = turned_away;
    log_->warn("shard {}: turned a peer away: {} ({} so far)", shard_, traffic.last_turned_away,
               turned_away);
  }
}

void ShardServer::Run() {
  Outbox out;
  while (!stop_) {
    const auto done = RunTasks();
    CommitAll(&out);
    for (const auto& promise : done) promise->set_value(true);
    if (!waiting_.empty()) SendWaiting();
    if (durable_->stands_still()) {
      // What comes in is for where it goes on.
      std::this_thread::sleep_for(kFullQueueRetry);
      continue;
    }
    ReceiveSome();
    CommitAll(&out);
    ReportTrouble();
  }
  // A command that comes in while we stop must not wait for ever.
  const auto done = RunTasks();
  CommitAll(&out);
  for (const auto& promise : done) promise->set_value(true);
}

}  // namespace psgd
