#include "server/control/copy_thread.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cores.h"

namespace psgd {
namespace {

constexpr Duration kFullQueuePause = std::chrono::milliseconds(1);
constexpr Duration kStatePeriod = std::chrono::milliseconds(500);
constexpr int kLooksPerSilence = 10;
// Of a copy that does not mind time. CopyCore takes a longer time between two looks for a
// standstill.
constexpr int kIdleLooksPerSilence = 4;
// Answers that wait for one slow peer. A worker asks again for dropped answers.
constexpr size_t kMostWaiting = 4096;
// Steps of a shard with a journal that are written together.
constexpr size_t kStepBytesTogether = 8u << 20;
constexpr int kMessagesTogether = 256;
// Disks that are slower are taken for disks that hang.
constexpr size_t kSlowestBytesPerMicrosecond = 10;

size_t BytesIn(const ShardImage& image) {
  size_t bytes = 0;
  for (const SliceSnapshot& slice : image.arrays.slices) {
    bytes += slice.weights.size();
    for (const auto& [name, state] : slice.states) bytes += state.size();
  }
  return bytes;
}

// Drops answers to older pulls, for which nobody waits. So a peer that does not read keeps no more
// memory in use than the weights of one pull.
void DropOlderPulls(const DataHeader& newer, std::deque<Message>* waiting) {
  if (!newer.has_pull_reply()) return;
  std::erase_if(*waiting, [&](const Message& message) {
    return message.header.has_pull_reply() && message.header.worker() == newer.worker() &&
           message.header.pull_reply().request() < newer.pull_reply().request();
  });
}

// Which of the answers that wait leaves first: the one with the smallest number. Weights of front
// layers precede others, because the next step needs them first, and all else precedes weights.
uint64_t TurnOf(const Message& answer) {
  if (answer.header.pull_reply().parts().empty()) return 0;
  return 1 + uint64_t{answer.header.pull_reply().parts(0).slice()};
}

// In place of an answer that no message can hold: its worker would ask again for ever.
Message RefusalInPlaceOf(const DataHeader& answer, const absl::Status& why) {
  Message refusal;
  refusal.header.set_worker(answer.worker());
  refusal.header.set_incarnation(answer.incarnation());
  refusal.header.set_shard(answer.shard());
  Refusal* const body = refusal.header.mutable_refusal();
  body->set_reason(Refusal::MALFORMED);
  body->set_detail(absl::StrCat("its answer cannot be sent: ", why.message()));
  body->set_request(answer.has_pull_reply() ? answer.pull_reply().request()
                                            : answer.state_reply().request());
  return refusal;
}

}  // namespace

CopyThread::CopyThread(CopyThreadOptions options, std::unique_ptr<DurableShard> shard)
    : options_(std::move(options)),
      core_(options_.core, std::move(shard)),
      trace_(options_.callbacks.on_spans ? std::make_optional<ShardTrace>(
                                               options_.core.shard, options_.callbacks.trace_steps)
                                         : std::nullopt),
      thread_([this] { Run(); }) {}

CopyThread::~CopyThread() { Stop(); }

void CopyThread::Stop() {
  {
    std::lock_guard lock(tasks_mutex_);
    if (stopped_.exchange(true)) return;
    if (endpoint_ != nullptr) endpoint_->Wake();
    changed_.notify_all();
  }
  thread_.join();
  WaitWhileSaving();
}

bool CopyThread::Post(Task task) {
  std::lock_guard lock(tasks_mutex_);
  if (stopped_) return false;
  tasks_.push_back(std::move(task));
  if (endpoint_ != nullptr) endpoint_->Wake();
  changed_.notify_all();
  return true;
}

bool CopyThread::Do(const Task& task) {
  auto done = std::make_shared<std::promise<bool>>();
  auto finished = done->get_future();
  const bool posted = Post([&task, done] {
    task();
    done->set_value(true);
  });
  return posted && finished.get();
}

void CopyThread::Have(const AssignedCopy& assigned, uint32_t server) {
  Post([this, assigned, server] {
    const Time now = SteadyNow();
    if (assigned.fresh()) WaitWhileSaving();  // the image is still being saved to the old journal
    port_trouble_ = std::string(core_.Have(assigned, server, now).message());
    if (!core_.leads()) return;
    // A cut that the journal made again: the run's leader knows if it is missing.
    if (auto cut = core_.shard()->TakeReplayedCut()) {
      options_.callbacks.on_cut(options_.core.shard, *std::move(cut));
    }
  });
}

void CopyThread::OpenOrClosePort() {
  if (core_.leads() == (endpoint_ != nullptr)) return;
  std::unique_ptr<Endpoint> port;
  if (core_.leads()) {
    // The transport's threads do not stay with this one.
    const OnAnyCore anywhere(options_.cores);
    auto opened = options_.listen();
    port_trouble_ = std::string(opened.status().message());
    if (!opened.ok()) return;
    port = *std::move(opened);
  }
  waiting_.clear();
  std::lock_guard lock(tasks_mutex_);
  endpoint_.swap(port);
  // A task that came meanwhile could not wake the port.
  if (endpoint_ != nullptr) endpoint_->Wake();
}

void CopyThread::Execute(ShardCommand command, uint64_t number, uint64_t epoch) {
  Post([this, command = std::move(command), number, epoch] {
    core_.Execute(command, number, epoch);
  });
}

void CopyThread::OnCopy(uint32_t from, CopyMessage message) {
  if (!std::holds_alternative<CopyMessage::Image>(message.what)) {
    Post([this, from, message = std::move(message)]() mutable {
      core_.OnCopy(from, std::move(message), SteadyNow());
    });
    return;
  }
  const size_t bytes = BytesIn(*std::get<CopyMessage::Image>(message.what).image);
  const Duration most =
      options_.write_patience + std::chrono::microseconds(bytes / kSlowestBytesPerMicrosecond);
  const Time begun = SteadyNow();
  const CopySend sign{from, {message.shard, message.epoch, CopyMessage::TakesImage{}}};
  const auto written = std::make_shared<std::promise<void>>();
  const auto over = written->get_future();
  const bool posted = Post([this, from, message = std::move(message), written]() mutable {
    WaitWhileSaving();  // the image is still being saved to the old journal
    core_.OnCopy(from, std::move(message), SteadyNow());
    written->set_value();
  });
  const auto period = options_.core.silence / CopyMessage::kSignsPerSilence;
  while (posted && over.wait_for(period) == std::future_status::timeout) {
    // Otherwise a disk that hangs would keep the leader waiting for ever.
    if (SteadyNow() - begun < most) options_.callbacks.on_send(sign);
  }
}

void CopyThread::OnPart() {
  Post([this] { core_.OnPart(SteadyNow()); });
}

void CopyThread::OnReached() {
  Post([this] { core_.OnReached(); });
}

void CopyThread::OnFollowerReached(uint32_t server, const std::function<void()>& take_link) {
  Do([&] {
    core_.OnFollowerReached(server);
    take_link();
  });
}

void CopyThread::OnFollowerGone(uint32_t server) {
  Post([this, server] { core_.OnFollowerGone(server, SteadyNow()); });
}

void CopyThread::CheckpointDone(uint64_t checkpoint) {
  Post([this, checkpoint] { core_.CheckpointDone(checkpoint); });
}

void CopyThread::WaitWhileSaving() {
  std::unique_lock lock(tasks_mutex_);
  changed_.wait(lock, [&] { return !saving_; });
}

absl::Status CopyThread::SaveImage(const std::shared_ptr<const ShardImage>& image) {
  Journal* journal = nullptr;
  Do([&] {
    journal = core_.JournalFor(image);
    std::lock_guard lock(tasks_mutex_);
    saving_ = journal != nullptr;
  });
  if (journal == nullptr) return absl::OkStatus();
  const absl::Status status = journal->SaveImage(*image);
  {
    std::lock_guard lock(tasks_mutex_);
    saving_ = false;
    changed_.notify_all();
  }
  Do([&] { core_.ImageSaved(image, status); });
  return status;
}

absl::Status CopyThread::Weights(
    const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take) {
  std::vector<std::pair<uint32_t, Bytes>> weights;
  bool leads = false;
  Do([&] {
    leads = core_.leads();
    if (leads) weights = core_.shard()->core().ShareWeights();
  });
  if (!leads) {
    return UnavailableError("shard ", options_.core.shard, " is led by another server by now");
  }
  for (const auto& [slice, values] : weights) PSGD_RETURN_IF_ERROR(take(slice, values));
  return absl::OkStatus();
}

void CopyThread::RunTasks() {
  std::deque<Task> tasks;
  {
    std::lock_guard lock(tasks_mutex_);
    tasks.swap(tasks_);
  }
  for (Task& task : tasks) task();
}

void CopyThread::Receive() {
  const Duration tick = options_.core.silence / kLooksPerSilence;
  if (endpoint_ == nullptr) {
    std::unique_lock lock(tasks_mutex_);
    changed_.wait_for(lock, tick, [&] { return !tasks_.empty() || stopped_; });
    return;
  }
  // Tasks and messages wake the port.
  const Duration longest = core_.MindsTime() ? tick : options_.core.silence / kIdleLooksPerSilence;
  Duration timeout = waiting_.empty() ? longest : kFullQueuePause;
  if (const auto closes = core_.shard()->core().grace().Ends()) {
    timeout = std::clamp(*closes - SteadyNow(), Duration(0), timeout);
  }
  for (int i = 0; i < kMessagesTogether; ++i) {
    if (core_.shard()->uncommitted_bytes() >= kStepBytesTogether) return;
    auto received = endpoint_->Receive(timeout);
    if (!received) return;
    pull_times_.Begin(received->message.header, SteadyNow());
    if (trace_) trace_->Begin(received->message.header);
    core_.OnMessage(received->from, std::move(received->message));
    if (trace_) trace_->End();
    pull_times_.End(SteadyNow());
    // Without a journal a larger batch gains nothing.
    if (core_.shard()->journal() == nullptr) return;
    timeout = Duration(0);
  }
}

void CopyThread::Commit() {
  const uint64_t written = core_.shard() == nullptr ? 0 : core_.shard()->entries();
  const Time start = SteadyNow();
  CopyCore::Effects effects;
  core_.Commit(start, &effects);
  const bool answered = !effects.workers.empty();
  SendAll(&effects.workers);
  if (answered && options_.callbacks.on_sent) options_.callbacks.on_sent();
  for (CopySend& send : effects.copies) options_.callbacks.on_send(std::move(send));
  DurableShard* const shard = core_.shard();
  if (shard != nullptr) {
    ReportStall();
    if (shard->entries() > written) journal_latency_.Add(LatencyBin(SteadyNow() - start));
    if (trace_ && trace_->any() && shard->stalled().ok()) {
      options_.callbacks.on_spans(trace_->Committed());
    }
    while (auto cut = shard->TakeFinishedCut()) {
      if (core_.leads()) options_.callbacks.on_cut(options_.core.shard, std::move(*cut));
    }
    for (QuarantinedWorker& worker : shard->core().TakeQuarantined()) {
      if (core_.leads()) options_.callbacks.on_quarantine(std::move(worker));
    }
    if (auto image = core_.TakeDueImage()) {
      options_.callbacks.on_image(options_.core.shard, std::move(image));
    }
  }
  // The state comes before the orders: whoever hears that an order is done finds it in the state.
  TellState();
  for (CopyCore::OrderDone& done : effects.orders) {
    options_.callbacks.on_order(options_.core.shard, std::move(done));
  }
}

bool CopyThread::SendNow(PeerId to, const Message& message) {
  absl::Status status = endpoint_->Send(to, message);
  if (absl::IsInvalidArgument(status)) {
    options_.log->error("shard {}: an answer to worker {} cannot be sent: {}", options_.core.shard,
                        message.header.worker(), std::string(status.message()));
    status = endpoint_->Send(to, RefusalInPlaceOf(message.header, status));
  }
  // A peer that is gone asks again when it returns.
  if (!status.ok()) options_.log->debug("to peer {}: {}", to, status.ToString());
  return !absl::IsResourceExhausted(status);
}

void CopyThread::SendAll(Outbox* out) {
  for (Outgoing& outgoing : *out) {
    if (endpoint_ == nullptr) break;
    pull_times_.Stamp(&outgoing.message.header, SteadyNow());
    auto waiting = waiting_.find(outgoing.to);
    if (waiting == waiting_.end()) {
      if (SendNow(outgoing.to, outgoing.message)) continue;
      waiting = waiting_.try_emplace(outgoing.to).first;
    }
    DropOlderPulls(outgoing.message.header, &waiting->second);
    if (waiting->second.size() < kMostWaiting) {
      const uint64_t turn = TurnOf(outgoing.message);
      waiting->second.insert(std::ranges::upper_bound(waiting->second, turn, {}, TurnOf),
                             std::move(outgoing.message));
    }
  }
  out->clear();
}

void CopyThread::SendWaiting() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    auto& messages = it->second;
    while (!messages.empty() && SendNow(it->first, messages.front())) {
      messages.pop_front();
    }
    it = messages.empty() ? waiting_.erase(it) : std::next(it);
  }
}

CopyState CopyThread::State() const {
  CopyState state = core_.State();
  // Without a port the copy serves nobody.
  state.set_leads(state.leads() && endpoint_ != nullptr);
  if (!Trouble().empty()) state.set_trouble(Trouble());
  if (state.leads()) state.set_endpoint(options_.advertised(endpoint_->address()));
  return state;
}

ShardStatus CopyThread::Status() const {
  ShardStatus status;
  status.set_shard(options_.core.shard);
  if (core_.shard() == nullptr) return status;
  const DurableShard& durable = *core_.shard();
  const ShardCore& core = durable.core();
  const ShardStats& stats = core.stats();
  if (endpoint_ != nullptr) status.set_endpoint(options_.advertised(endpoint_->address()));
  status.set_slices(static_cast<uint32_t>(core.slices()));
  status.set_bytes(core.weight_bytes());
  status.set_pushes(stats.pushes);
  status.set_pulls(stats.pulls);
  status.set_duplicates(stats.duplicates);
  for (const auto& [reason, count] : stats.refused) (*status.mutable_refused())[reason] = count;
  const EndpointStats traffic = endpoint_ == nullptr ? EndpointStats() : endpoint_->stats();
  for (const auto& [reason, count] :
       {std::pair("garbage", traffic.malformed), std::pair("stranger", traffic.strangers),
        std::pair("impostor", traffic.impostors), std::pair("over_budget", traffic.over_budget)}) {
    if (count > 0) (*status.mutable_refused())[reason] = count;
  }
  status.set_slowest_clock(core.SlowestClock());
  status.set_fastest_clock(core.FastestClock());
  status.set_journal_entries(durable.entries());
  status.set_journal_bytes(durable.journal_bytes());
  status.set_stalled(stalled_);
  status.set_waiting_pulls(core.waiting_pulls());
  for (const uint32_t worker : core.LateWorkers()) status.add_late_workers(worker);
  uint64_t queued = core.held_bytes();
  for (const auto& [peer, messages] : waiting_) {
    for (const Message& message : messages) queued += message.PayloadBytes();
  }
  status.set_queue_bytes(queued);
  for (const uint64_t count : journal_latency_.counts()) status.add_journal_latency(count);
  for (const uint64_t count : stats.push_staleness.counts()) status.add_push_staleness(count);
  return status;
}

void CopyThread::TellState() {
  // Called for every message, so it compares before it makes anything.
  const Time now = SteadyNow();
  const absl::string_view port = endpoint_ == nullptr ? absl::string_view() : endpoint_->address();
  const bool same = core_.StillSays(told_) && port == told_port_ && Trouble() == told_trouble_;
  if (same && now < told_at_ + kStatePeriod) return;
  told_ = core_.State();
  told_port_ = std::string(port);
  told_trouble_ = Trouble();
  told_at_ = now;
  CopyState state = State();
  *state.mutable_status() = Status();
  options_.callbacks.on_state(std::move(state));
}

void CopyThread::ReportStall() {
  const absl::Status& stalled = core_.shard()->stalled();
  switch (stalls_.See(!stalled.ok(), SteadyNow())) {
    case StallReport::News::kNone:
      return;
    case StallReport::News::kWaits:
      stalled_ = std::string(stalled.message());
      options_.log->error("shard {}: waits, since its journal cannot be written: {}",
                          options_.core.shard, stalled_);
      return;
    case StallReport::News::kGoesOn:
      stalled_.clear();
      options_.log->info("shard {}: its journal can be written again; goes on, after it waited {}",
                         options_.core.shard,
                         stalls_.times() == 1 ? "once" : absl::StrCat(stalls_.times(), " times"));
      return;
  }
}

void CopyThread::ReportStrangers() {
  const Time now = SteadyNow();
  if (now < looked_for_strangers_ + kStatePeriod) return;
  looked_for_strangers_ = now;
  const EndpointStats traffic = endpoint_->stats();
  if (traffic.malformed > logged_malformed_) {
    logged_malformed_ = traffic.malformed;
    options_.log->warn("shard {}: dropped what is not a psgd message: {} ({} so far)",
                       options_.core.shard, traffic.last_malformed, traffic.malformed);
  }
  const uint64_t turned_away = traffic.strangers + traffic.impostors + traffic.over_budget;
  // A peer that tries again and again must not fill the disk.
  if (turned_away >= 2 * logged_turned_away_ && turned_away > 0) {
    logged_turned_away_ = turned_away;
    options_.log->warn("shard {}: turned a peer away: {} ({} so far)", options_.core.shard,
                       traffic.last_turned_away, turned_away);
  }
}

void CopyThread::Run() {
  if (options_.stays_on && !StayOnCore(*options_.stays_on)) {
    options_.log->warn("shard {}: the system does not let its thread stay on core {} (cluster.pin)",
                       options_.core.shard, *options_.stays_on);
  }
  while (!stopped_) {
    RunTasks();
    core_.Tick(SteadyNow());
    OpenOrClosePort();
    Commit();
    if (!waiting_.empty()) SendWaiting();
    Receive();
    if (endpoint_ != nullptr) ReportStrangers();
  }
  RunTasks();  // somebody may wait for a task
  Commit();
  std::unique_ptr<Endpoint> port;
  std::lock_guard lock(tasks_mutex_);
  endpoint_.swap(port);
}

}  // namespace psgd
