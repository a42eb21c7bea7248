#include "net/ipc/ipc_endpoint.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "net/address.h"
#include "net/epoll.h"

namespace psgd {
namespace {

// Keys of what every endpoint watches.
constexpr uint64_t kWakeKey = UINT64_MAX;
constexpr uint64_t kBellKey = UINT64_MAX - 1;

constexpr Duration kLookAtSocketsPeriod = std::chrono::milliseconds(1);
// A peer that breaks the rules delays others' messages by this at most, whatever marks it clears.
constexpr Duration kLookAtAllPeriod = std::chrono::seconds(1);

}  // namespace

IpcEndpoint::IpcEndpoint(const TransportOptions& options, Bell bell, FileDescriptor epoll)
    : JoinableEndpoint(options, Integrity::kMemory),
      bell_(std::move(bell)),
      epoll_(std::move(epoll)) {
  for (const auto& [fd, key] : {std::pair(wake_.fd(), kWakeKey), std::pair(bell_.fd(), kBellKey)}) {
    psgd::Watch(epoll_, fd, key, EPOLLIN);
  }
}

uint64_t IpcEndpoint::ArenaBytes() const {
  return 4 * std::max(options_.max_message_bytes, options_.send_queue_bytes);
}

void IpcEndpoint::Watch(const FileDescriptor& socket, uint64_t key) {
  psgd::Watch(epoll_, socket.get(), key, EPOLLIN | EPOLLRDHUP);
}

void IpcEndpoint::HandleSockets(Duration wait) {
  looked_ = SteadyNow();
  epoll_event events[64];
  // Rounded up: a wait of 0 ms would spin until the deadline.
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  const int count =
      ::epoll_wait(epoll_.get(), events, std::size(events), static_cast<int>(milliseconds));
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[i].data.u64;
    if (key == kWakeKey) continue;
    // A ring that came late leaves the bell armed, so EndQuiet would not drain it.
    if (key == kBellKey) bell_.Drain();
    EndQuiet();
    if (key == kBellKey) continue;
    OnSocket(key, (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
  }
}

void IpcEndpoint::LookAtSockets(bool now) {
  const Time time = SteadyNow();
  if (now || time - looked_ >= kLookAtSocketsPeriod) HandleSockets(Duration::zero());
  if (time - looked_at_all_ < kLookAtAllPeriod) return;
  looked_at_all_ = time;
  pending_.AddAll();
  EndQuiet();
}

std::optional<Received> IpcEndpoint::Receive(Duration timeout) {
  const Time deadline = SteadyNow() + std::min<Duration>(timeout, std::chrono::hours(24));
  while (true) {
    if (wake_.Take()) return std::nullopt;
    LookAtSockets();
    Attempt attempt = IsQuiet() ? Attempt() : TryReceive();
    if (attempt.refused) return std::nullopt;
    Time now = SteadyNow();
    if (attempt.received) {
      moved_ = now;
      return std::move(attempt.received);
    }
    const Time next = Maintain(now);
    if (now >= deadline) return std::nullopt;
    if (spin_.Until(moved_, [&] { return HasWork(); }) || !BeginWait()) continue;
    const Duration wait =
        std::min({deadline, next, looked_at_all_ + kLookAtAllPeriod}) - SteadyNow();
    HandleSockets(std::max(wait, Duration::zero()));
    EndWait();
  }
}

bool IpcEndpoint::BeginWait() {
  if (IsQuiet()) return true;
  bell_.Arm();
  quiet_ = true;
  if (!AnyWork()) return true;
  EndQuiet();
  return false;
}

bool IpcEndpoint::IsQuiet() {
  if (quiet_ && !bell_.IsArmed()) EndQuiet();
  return quiet_;
}

void IpcEndpoint::EndQuiet() {
  if (std::exchange(quiet_, false)) bell_.Disarm();
}

void IpcEndpoint::Lose(Link& link) {
  link.lost = true;
  LookAt(link);
  EndQuiet();
}

IpcEndpoint::Attempt IpcEndpoint::TryReceive() {
  bell_.TakeMarks(&pending_);
  // Begins after the link served last, so that a busy peer does not starve the others.
  while (const std::optional<size_t> number = pending_.NextFrom(next_)) {
    next_ = *number + 1;
    Link* const link = LinkAt(*number);
    if (link != nullptr && link->shared && link->shared->HasIncoming()) {
      Attempt attempt = Take(*link);
      if (attempt.refused || attempt.received) return attempt;
    }
    pending_.Remove(*number);
    if (link != nullptr && link->lost) Drop(*link);
  }
  return {};
}

IpcEndpoint::Attempt IpcEndpoint::Take(Link& link) {
  auto frames = link.shared->Receive(options_.max_message_bytes);
  if (!frames.ok()) {
    CountMalformed(frames.status().message());
    if (!link.shared->sound()) Lose(link);
    return {.refused = true, .received = {}};
  }
  if (!*frames) return {};
  std::optional<Message> message = Decode(**frames, link.pass);
  if (!message) return {.refused = true, .received = {}};
  return {.refused = false, .received = Received{link.peer, *std::move(message)}};
}

absl::Status IpcEndpoint::SendTo(Link& link, const Message& message) {
  PSGD_ASSIGN_OR_RETURN(const EncodedMessage encoded, Encode(message));
  if (!link.shared->MayEverFit(encoded.size)) {
    return InvalidArgumentError("a message of ", encoded.size,
                                " bytes is too large for the memory that the peer shares");
  }
  if (!link.shared->Send(encoded.frames)) {
    if (!link.shared->sound()) Lose(link);
    return link.lost ? Gone(link.peer) : Full(link.peer);
  }
  if (link.bell) link.bell->Ring(link.number_there);
  moved_ = SteadyNow();  // an answer may follow
  CountSent(encoded.size);
  return absl::OkStatus();
}

}  // namespace psgd
