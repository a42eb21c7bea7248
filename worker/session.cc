#include "worker/session.h"

#include <algorithm>

namespace psgd {
namespace {
// How long to leave a full queue alone, and how often a wait asks whether it was interrupted.
constexpr Duration kFullQueuePause = std::chrono::milliseconds(2);
constexpr Duration kWaitPoll = std::chrono::milliseconds(100);
constexpr Duration kCarryPoll = std::chrono::milliseconds(5);  // while queues may be full
}  // namespace

Session::Session(SessionCore* core, std::unique_ptr<Endpoint> endpoint,
                 std::function<absl::Status()> interrupted,
                 std::function<absl::StatusOr<std::optional<MovedShards>>()> moved,
                 std::function<Time()> limit)
    : core_(core),
      endpoint_(std::move(endpoint)),
      interrupted_(std::move(interrupted)),
      moved_(std::move(moved)),
      limit_(std::move(limit)) {}

Session::~Session() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  if (carrier_.joinable()) carrier_.join();
}

Session::Away::Away(Session* session) : session_(session) {
  session_->Lock();
  session_->away_ = true;
  session_->mutex_.unlock();
  const Inside inside(session_);  // something may wait already
}

Session::Away::~Away() {
  session_->Lock();
  session_->away_ = false;
  session_->mutex_.unlock();
}

void Session::Lock() {
  owner_comes_ = true;
  if (!mutex_.try_lock()) {
    endpoint_->Wake();
    mutex_.lock();
  }
  owner_comes_ = false;
}

void Session::Enter() {
  if (away_ && inside_++ == 0) Lock();
}

void Session::Exit() {
  if (!away_ || --inside_ > 0) return;
  const bool waits = core_->WaitsForRoom();
  mutex_.unlock();
  if (!waits) return;
  if (!carrier_.joinable()) carrier_ = std::thread([this] { Carry(); });
  changed_.notify_one();
}

void Session::Carry() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [this] { return ending_ || (away_ && !owner_comes_ && core_->WaitsForRoom()); });
    if (ending_) return;
    SendNow();
    if (auto received = endpoint_->Receive(kCarryPoll))
      core_->OnMessage(received->from, received->message, SteadyNow());
  }
}

void Session::Push(uint64_t clock, EncodedSlice update) {
  const Inside inside(this);
  core_->Push(clock, std::move(update), SteadyNow());
  SendNow();
}

void Session::Send() {
  const Inside inside(this);
  SendNow();
}

void Session::SendNow() {
  while (auto next = core_->Next()) {
    const Time start = SteadyNow();  // the other side may have it before Send is back
    const absl::Status status = endpoint_->Send(next->to, *next->message);
    if (status.ok()) {
      core_->Sent(start);
    } else if (absl::IsInvalidArgument(status)) {
      core_->CannotSend(status);
    } else {
      // Full or not connected: it stays in the core, which gives up at its deadline.
      core_->Retry(SteadyNow(), kFullQueuePause);
    }
  }
}

Time Session::NextPoll() const {
  const Time next = SteadyNow() + kWaitPoll;
  return limit_ == nullptr ? next : std::min(next, limit_());
}

absl::Status Session::WaitUntil(const std::function<bool()>& done) {
  const Inside inside(this);
  Time next_poll = NextPoll();
  while (!done()) {
    SendNow();
    const Duration left = std::min(core_->NextTick(), next_poll) - SteadyNow();
    const Duration timeout = std::clamp<Duration>(left, std::chrono::milliseconds(1), kWaitPoll);
    if (auto received = endpoint_->Receive(timeout)) {
      core_->OnMessage(received->from, received->message, SteadyNow());
    } else {
      PSGD_RETURN_IF_ERROR(core_->Tick(SteadyNow()));
    }
    if (SteadyNow() < next_poll) continue;
    // What is here counts, also when the time is over.
    while (auto received = endpoint_->Receive(Duration::zero())) {
      core_->OnMessage(received->from, received->message, SteadyNow());
    }
    if (done()) return absl::OkStatus();
    PSGD_RETURN_IF_ERROR(interrupted_());
    PSGD_RETURN_IF_ERROR(FollowMove());
    next_poll = NextPoll();
  }
  return absl::OkStatus();
}

absl::Status Session::FollowMove() {
  if (moved_ == nullptr) return absl::OkStatus();
  PSGD_ASSIGN_OR_RETURN(auto moved, moved_());
  if (!moved) return absl::OkStatus();
  const EndpointStats stats = endpoint_->stats();
  left_.bytes_sent += stats.bytes_sent;
  left_.bytes_received += stats.bytes_received;
  // Its end waits a while for what nobody takes any more.
  retired_ =
      std::async(std::launch::async, [old = std::move(endpoint_)]() mutable { old.reset(); });
  endpoint_ = std::move(moved->endpoint);
  core_->ShardsMoved(moved->addresses, SteadyNow());
  return absl::OkStatus();
}

bool Session::PullCame() {
  const Inside inside(this);
  while (core_->pulling()) {
    auto received = endpoint_->Receive(Duration::zero());
    if (!received) break;
    core_->OnMessage(received->from, received->message, SteadyNow());
  }
  SendNow();  // what acknowledgements made room for
  return !core_->pulling();
}

absl::StatusOr<LinkSpeed> Session::MeasureLink() {
  PSGD_RETURN_IF_ERROR(WaitUntil([this] { return core_->AllAcknowledged(); }));
  const EndpointStats before = endpoint_->stats();
  const absl::StatusOr<LinkSpeed> speed =
      psgd::MeasureLink([this](const Bytes& probe) -> absl::StatusOr<double> {
        const Time start = SteadyNow();
        core_->Probe(probe, start);
        PSGD_RETURN_IF_ERROR(WaitUntil([this] { return !core_->probing(); }));
        return Seconds(SteadyNow() - start);
      });
  const EndpointStats after = endpoint_->stats();
  measured_sent_ += after.bytes_sent - before.bytes_sent;
  measured_received_ += after.bytes_received - before.bytes_received;
  return speed;
}

std::optional<Time> Session::AcknowledgedAt() const {
  if (!core_->AllAcknowledged()) return std::nullopt;
  return core_->acknowledged_at();
}

EndpointStats Session::traffic() const {
  EndpointStats stats = endpoint_->stats();
  stats.bytes_sent += left_.bytes_sent - measured_sent_;
  stats.bytes_received += left_.bytes_received - measured_received_;
  return stats;
}

}  // namespace psgd
