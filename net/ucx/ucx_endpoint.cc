#include "net/ucx/ucx_endpoint.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>

#include "common/open_files.h"
#include "net/epoll.h"
#include "net/transport_security.h"

namespace psgd {
namespace {

// The owner is away if it did not come for so long.
constexpr Duration kAway = std::chrono::microseconds(500);
constexpr Duration kStopWatching = std::chrono::milliseconds(20);
// An endpoint for which nothing moved for so long is not active.
constexpr Duration kInactive = std::chrono::seconds(1);
// How long the background thread sleeps at most while the owner is away.
constexpr Duration kBackgroundSleep = std::chrono::milliseconds(20);

constexpr size_t kKeptBuffers = 256u << 20;
constexpr size_t kMessageCost = 256;  // beyond the bytes of a message
// Smaller data lie behind their header, so that a message is one buffer.
constexpr size_t kOneBufferBelow = 16u << 10;
// So much of a message goes as the header of an active message at most.
constexpr size_t kLargestHeader = 4u << 10;
// What each active message begins with: the number by which the receiver knows the sender.
constexpr size_t kNumberBytes = sizeof(uint64_t);
constexpr Duration kLookPeriod = std::chrono::milliseconds(1);

}  // namespace

// A message that UCX sends. It keeps the bytes alive.
struct UcxEndpoint::Sending {
  UcxEndpoint* endpoint;
  PeerPtr peer;
  std::vector<std::byte> header;
  std::vector<Bytes> frames;
  std::vector<ucp_dt_iov_t> data;
  size_t bytes;
};

struct UcxEndpoint::Fetching {
  UcxEndpoint* endpoint;
  PeerPtr peer;
  IncomingPtr incoming;
  ucp_ep_h ep;  // a later connection of the peer has another
};

UcxEndpoint::Inside::Inside(UcxEndpoint& endpoint) : endpoint_(endpoint) {
  endpoint.inside_ = true;  // before the lock: the background thread gives it up
  endpoint.visits_.fetch_add(1, std::memory_order_relaxed);
  lock_ = std::unique_lock(endpoint.mutex_);
}

UcxEndpoint::Inside::~Inside() {
  endpoint_.inside_ = false;
  if (endpoint_.under_way_ == 0 && !endpoint_.active_) return;
  if (endpoint_.watching_.exchange(true)) return;
  if (!lock_.owns_lock()) lock_.lock();
  if (!endpoint_.background_.joinable() && !endpoint_.ending_) {
    endpoint_.background_ = std::thread([endpoint = &endpoint_] { endpoint->Background(); });
  }
  endpoint_.owner_left_.notify_one();
}

UcxEndpoint::UcxEndpoint(const TransportOptions& options, std::unique_ptr<UcxWorker> worker,
                         FileDescriptor epoll)
    : JoinableEndpoint(options),
      worker_(std::move(worker)),
      ucx_(worker_->ucx()),
      epoll_(std::move(epoll)),
      buffers_(kKeptBuffers) {
  const auto handle = [&](Kind kind, ucp_am_recv_callback_t callback) {
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kind;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.cb = callback;
    handler.arg = this;
    ucx_.set_am_recv_handler(worker_->get(), &handler);
  };
  handle(kMessage, OnActiveMessage<kMessage>);
  handle(kGoodbye, OnActiveMessage<kGoodbye>);
  handle(kGoodbyeHeard, OnActiveMessage<kGoodbyeHeard>);
  handle(kProbe, OnActiveMessage<kProbe>);
  handle(kProbeHeard, OnActiveMessage<kProbeHeard>);
  WatchSocket(worker_->fd(), kUcxKey);
}

UcxEndpoint::~UcxEndpoint() = default;

void UcxEndpoint::WatchSocket(int fd, uint64_t key, bool made) {
  Watch(epoll_, fd, key, made ? EPOLLIN | EPOLLRDHUP | EPOLLOUT : EPOLLIN | EPOLLRDHUP);
}

void UcxEndpoint::StopWatching(int fd, uint64_t key) { Watch(epoll_, fd, key, 0); }

UcxEndpoint::PeerPtr UcxEndpoint::PeerOf(uint64_t number) const {
  const auto found = peers_.find(static_cast<uint32_t>(number));
  return found != peers_.end() && found->second->number() == number ? found->second : nullptr;
}

void UcxEndpoint::LookAtSockets() {
  looked_ = SteadyNow();
  epoll_event events[64];
  const int count = ::epoll_wait(epoll_.get(), events, std::size(events), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[i].data.u64;
    if (key == kUcxKey) continue;
    if (key == kOwnKey) {
      OnOwnSocket();
    } else if (const PeerPtr peer = PeerOf(key)) {
      const bool made = events[i].events == EPOLLOUT;
      made ? OnConnected(peer) : OnControl(peer);
    }
  }
  if (IsAwaited()) active_ = true;
}

void UcxEndpoint::OnControl(const PeerPtr& peer) {
  if (!peer->control.open()) return;
  // After the greeting only the end of the connection comes.
  auto greeting = peer->reader.Read(peer->control.get());
  if (!greeting.ok()) {
    if (absl::IsInvalidArgument(greeting.status())) refused_ = greeting.status();
    peer->failure = std::string(greeting.status().message());
    return Lose(peer);
  }
  if (!greeting->has_value()) return;
  if (peer->met) return Lose(peer);
  if (const absl::Status met = Meet(peer, **greeting); !met.ok()) {
    peer->failure = std::string(met.message());
    if (!std::exchange(said_unmet_, true)) options_.log->warn("{}", peer->failure);
    return Lose(peer);
  }
  OnMet(peer);
}

void UcxEndpoint::Probe(const PeerPtr& peer) { Post(peer, kProbe, {}, 0).IgnoreError(); }

void UcxEndpoint::Open(const PeerPtr& peer) {
  peer->open = true;
  peer->waiting_bytes = 0;
  for (EncodedMessage& message : std::exchange(peer->waiting, {})) {
    Post(peer, std::move(message)).IgnoreError();  // OnLost follows
  }
  if (ending_) Post(peer, kGoodbye, {}, 0).IgnoreError();
}

std::string UcxEndpoint::DeviceOf(const Peer& peer) const {
  char* text = nullptr;
  size_t size = 0;
  FILE* const file = ::open_memstream(&text, &size);
  if (file == nullptr) return "unknown";
  ucx_.ep_print_info(peer.ep, file);
  std::fclose(file);
  const std::string info(text, size);
  std::free(text);
  // As "lane[0]:  1:tcp/eth0.0 md[1]".
  std::smatch found;
  return std::regex_search(info, found, std::regex(R"(lane\[0\]: +\d+:([^ ]+)\.\d+ )"))
             ? found[1].str()
             : "unknown";
}

absl::Status UcxEndpoint::Meet(const PeerPtr& peer, const UcxGreeting& greeting) {
  constexpr int kFiles = 8;  // more than a connection opens
  PSGD_RETURN_IF_ERROR(UcxWorker::CheckFiles(kFiles));
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(greeting.worker.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {OnError, this};
  const ucs_status_t status = ucx_.ep_create(worker_->get(), &params, &peer->ep);
  if (status != UCS_OK) {
    peer->ep = nullptr;
    return UnavailableError("UCX: no connection to a peer: ", ucx_.status_string(status),
                            "; do both machines have a network in common (UCX_NET_DEVICES)? ",
                            OpenFilesText());
  }
  peer->their_number = greeting.number;
  peer->met = true;
  return absl::OkStatus();
}

void UcxEndpoint::Greet(const PeerPtr& peer) {
  const UcxGreeting greeting{.number = peer->number(), .worker = worker_->address()};
  const absl::Status sent = SendGreeting(peer->control.get(), greeting);
  if (sent.ok()) return;
  peer->failure = std::string(sent.message());
  Lose(peer);
}

void UcxEndpoint::Lose(const PeerPtr& peer) {
  Close(peer);
  OnLost(peer);
}

template <UcxEndpoint::Kind kind>
ucs_status_t UcxEndpoint::OnActiveMessage(void* arg, const void* header, size_t header_bytes,
                                          void* data, size_t data_bytes,
                                          const ucp_am_recv_param_t* param) {
  auto* const self = static_cast<UcxEndpoint*>(arg);
  const ByteSpan span(static_cast<const std::byte*>(header), header_bytes);
  if (span.size() < kNumberBytes) return UCS_OK;
  const PeerPtr peer = self->PeerOf(LoadField<uint64_t>(span.data()));
  if (peer == nullptr || !peer->met) return UCS_OK;
  if constexpr (kind == kMessage) {
    return self->Take(peer, span.subspan(kNumberBytes), data, data_bytes,
                      (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
  }
  if constexpr (kind == kProbe) {
    // Nobody who asks without end takes memory without end.
    if (self->HasRoom(*peer, 0)) self->Post(peer, kProbeHeard, {}, 0).IgnoreError();
  } else if constexpr (kind == kProbeHeard) {
    self->OnAnswered(peer);
  } else {
    peer->left = true;
    peer->answers_goodbye = kind == kGoodbye;
    self->AnswerGoodbye(peer);
  }
  return UCS_OK;
}

ucs_status_t UcxEndpoint::Take(const PeerPtr& peer, ByteSpan header, void* data, size_t data_bytes,
                               bool announced) {
  active_ = true;
  auto incoming = std::make_shared<Incoming>();
  peer->incoming.push_back(incoming);
  if (header.size() + data_bytes > options_.max_message_bytes) {
    Settle(peer, incoming, Incoming::State::kTooLarge);
    return UCS_OK;  // UCX drops what it announced
  }
  incoming->data_bytes = data_bytes;
  incoming->cost = header.size() + data_bytes + kMessageCost;
  if (announced) {
    incoming->header = Bytes::CopyOf(header);
    incoming->announced = data;
    incoming->state = Incoming::State::kAnnounced;
    if (peer->announced.empty()) announcing_.push_back(peer);
    peer->announced.push_back(std::move(incoming));
    may_fetch_ = true;
    return UCS_INPROGRESS;
  }
  here_bytes_ += incoming->cost;
  if (data_bytes < kOneBufferBelow) {
    std::vector<std::byte> whole(header.size() + data_bytes);
    std::copy(header.begin(), header.end(), whole.begin());
    if (data_bytes > 0) std::memcpy(whole.data() + header.size(), data, data_bytes);
    incoming->header = Bytes::Adopt(std::move(whole));
  } else {
    incoming->header = Bytes::CopyOf(header);
    incoming->data = buffers_.Take(data_bytes);
    std::memcpy(incoming->data.get(), data, data_bytes);
  }
  Settle(peer, incoming, Incoming::State::kHere);
  return UCS_OK;
}

void UcxEndpoint::Settle(const PeerPtr& peer, const IncomingPtr& incoming, Incoming::State state) {
  incoming->state = state;
  if (!peer->incoming.empty() && peer->incoming.front() == incoming) deliverable_.push_back(peer);
}

void UcxEndpoint::AnswerGoodbye(const PeerPtr& peer) {
  if (!peer->answers_goodbye || !peer->met || peer->coming > 0 || !peer->announced.empty()) return;
  peer->answers_goodbye = false;
  Post(peer, kGoodbyeHeard, {}, 0).IgnoreError();
}

void UcxEndpoint::Fetch() {
  if (!std::exchange(may_fetch_, false)) return;
  for (size_t turns = announcing_.size(); turns > 0; --turns) {
    const PeerPtr peer = std::move(announcing_.front());
    announcing_.pop_front();
    while (!peer->announced.empty()) {
      const IncomingPtr incoming = peer->announced.front();
      // The next message of each peer is always fetched: a peer that freezes stops nobody else.
      const bool is_next = peer->incoming.front() == incoming;
      const size_t taken = here_bytes_ + coming_bytes_;
      if (!is_next && taken + incoming->cost > options_.queue_bytes) break;
      peer->announced.pop_front();
      StartFetching(peer, incoming);
    }
    if (!peer->announced.empty()) announcing_.push_back(peer);
  }
}

void UcxEndpoint::StartFetching(const PeerPtr& peer, const IncomingPtr& incoming) {
  ++peer->coming;
  coming_bytes_ += incoming->cost;
  incoming->data = buffers_.Take(incoming->data_bytes);
  incoming->state = Incoming::State::kComing;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = OnFetched;
  auto* const fetching = new Fetching{this, peer, incoming, peer->ep};
  param.user_data = fetching;
  ++under_way_;
  const ucs_status_ptr_t request =
      ucx_.am_recv_data(worker_->get(), std::exchange(incoming->announced, nullptr),
                        incoming->data.get(), incoming->data_bytes, &param);
  if (UCS_PTR_IS_PTR(request)) return;
  OnFetched(nullptr, UCS_PTR_RAW_STATUS(request), incoming->data_bytes, fetching);
}

void UcxEndpoint::OnFetched(void* request, ucs_status_t status, size_t bytes, void* fetching) {
  const std::unique_ptr<Fetching> done(static_cast<Fetching*>(fetching));
  const auto& [self, peer, incoming, ep] = *done;
  --self->under_way_;
  --peer->coming;
  self->coming_bytes_ -= incoming->cost;
  self->here_bytes_ += incoming->cost;
  const bool whole = status == UCS_OK && bytes == incoming->data_bytes;
  if (!whole && peer->met && peer->ep == ep) self->failed_.push_back(peer->ep);
  self->Settle(peer, incoming, whole ? Incoming::State::kHere : Incoming::State::kLost);
  self->AnswerGoodbye(peer);
  if (request != nullptr) self->ucx_.request_free(request);
}

std::pair<UcxEndpoint::PeerPtr, UcxEndpoint::IncomingPtr> UcxEndpoint::Pop() {
  PeerPtr peer = std::move(deliverable_.front());
  deliverable_.pop_front();
  IncomingPtr incoming = std::move(peer->incoming.front());
  peer->incoming.pop_front();
  if (!peer->incoming.empty() && peer->incoming.front()->state >= Incoming::State::kHere) {
    deliverable_.push_back(peer);
  }
  here_bytes_ -= incoming->cost;
  may_fetch_ = true;
  return {std::move(peer), std::move(incoming)};
}

UcxEndpoint::Attempt UcxEndpoint::Next(Inside& inside) {
  while (!deliverable_.empty()) {
    const auto [peer, incoming] = Pop();
    if (incoming->state == Incoming::State::kTooLarge) {
      CountMalformed("a message of too many bytes");
      return {.refused = true, .received = {}};
    }
    Fetch();
    if (incoming->state == Incoming::State::kLost) continue;
    inside.Unlock();
    std::vector<Bytes> frames = {std::move(incoming->header)};
    if (incoming->data != nullptr) {
      const ByteSpan span(incoming->data.get(), incoming->data_bytes);
      frames.emplace_back(std::shared_ptr<const void>(std::move(incoming->data)), span);
      if (frames[0].empty()) frames.erase(frames.begin());
    }
    std::optional<Message> message = Decode(frames, "");
    if (!message) return {.refused = true, .received = {}};
    return {.refused = false, .received = Received{peer->id, *std::move(message)}};
  }
  return {};
}

void UcxEndpoint::OnError(void* endpoint, ucp_ep_h ep, ucs_status_t /*status*/) {
  static_cast<UcxEndpoint*>(endpoint)->failed_.push_back(ep);
}

void UcxEndpoint::Close(const PeerPtr& peer) {
  peer->control = FileDescriptor();
  peer->reader = {};
  peer->met = peer->open = false;
  peer->answers_goodbye = false;
  if (peer->ep == nullptr) return;
  std::erase(failed_, peer->ep);  // UCX may give the same name to the next
  for (const IncomingPtr& incoming : std::exchange(peer->announced, {})) {
    ucx_.am_data_release(worker_->get(), std::exchange(incoming->announced, nullptr));
    incoming->cost = 0;
    Settle(peer, incoming, Incoming::State::kLost);
  }
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = OnClosed;
  param.user_data = this;
  const ucs_status_ptr_t request = ucx_.ep_close(std::exchange(peer->ep, nullptr), &param);
  if (UCS_PTR_IS_PTR(request)) ++under_way_;
}

void UcxEndpoint::OnClosed(void* request, ucs_status_t /*status*/, void* endpoint) {
  auto* const self = static_cast<UcxEndpoint*>(endpoint);
  --self->under_way_;
  self->ucx_.request_free(request);
}

bool UcxEndpoint::HasRoom(const Peer& peer, size_t bytes) const {
  const size_t messages = peer.sending_messages + peer.waiting.size();
  const size_t queued = peer.sending_bytes + peer.waiting_bytes;
  return messages < static_cast<size_t>(options_.send_queue_messages) &&
         (queued == 0 || queued + bytes <= options_.send_queue_bytes);
}

absl::Status UcxEndpoint::SendTo(const PeerPtr& peer, const Message& message) {
  if (!HasRoom(*peer, message.PayloadBytes())) {
    Nudge();
    return Full(peer->id);
  }
  PSGD_ASSIGN_OR_RETURN(EncodedMessage encoded, Encode(message));
  const size_t bytes = encoded.size;
  if (peer->open) {
    PSGD_RETURN_IF_ERROR(Post(peer, std::move(encoded)));
  } else {
    peer->waiting.push_back(std::move(encoded));
    peer->waiting_bytes += bytes;
  }
  active_ = true;
  moved_ = SteadyNow();  // an answer may follow
  CountSent(bytes);
  return absl::OkStatus();
}

absl::Status UcxEndpoint::Post(const PeerPtr& peer, EncodedMessage message) {
  return Post(peer, kMessage, std::move(message.frames), message.size);
}

absl::Status UcxEndpoint::Post(const PeerPtr& peer, Kind kind, std::vector<Bytes> frames,
                               size_t bytes) {
  auto sending = std::make_unique<Sending>();
  sending->endpoint = this;
  sending->peer = peer;
  sending->bytes = bytes;
  sending->frames = std::move(frames);
  std::span<const Bytes> data = sending->frames;
  sending->header.resize(kNumberBytes);
  StoreField(peer->their_number, sending->header.data());
  const size_t most = std::min(kLargestHeader, worker_->max_header_bytes()) - kNumberBytes;
  if (!data.empty()) {
    Bytes& first = sending->frames[0];
    // Payloads then begin the data, so that the receiver finds them aligned.
    const size_t before_body = kPreludeBytes + LoadField<uint32_t>(first.data() + kHeaderBytesAt);
    const size_t head = first.size() <= most ? first.size() : before_body;
    if (head <= most) {
      const ByteSpan span = first.span().first(head);
      sending->header.insert(sending->header.end(), span.begin(), span.end());
      first = first.Sub(head, first.size() - head);
      if (first.empty()) data = data.subspan(1);
    }
  }
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE;
  param.cb.send = OnSent;
  param.user_data = sending.get();
  param.datatype = ucp_dt_make_contig(1);
  const void* buffer = nullptr;
  size_t count = 0;
  if (data.size() == 1) {
    buffer = data[0].data();
    count = data[0].size();
  } else if (data.size() > 1) {
    for (const Bytes& frame : data) {
      sending->data.push_back({const_cast<std::byte*>(frame.data()), frame.size()});
    }
    param.datatype = UCP_DATATYPE_IOV;
    buffer = sending->data.data();
    count = sending->data.size();
  }
  const ucs_status_ptr_t request = ucx_.am_send(peer->ep, kind, sending->header.data(),
                                                sending->header.size(), buffer, count, &param);
  if (UCS_PTR_IS_ERR(request)) {
    failed_.push_back(peer->ep);
    return Gone(peer->id);
  }
  if (request != nullptr) {
    ++peer->sending_messages;
    peer->sending_bytes += sending->bytes;
    ++under_way_;
    sending.release();  // OnSent's
  }
  return absl::OkStatus();
}

void UcxEndpoint::OnSent(void* request, ucs_status_t /*status*/, void* sending) {
  const std::unique_ptr<Sending> done(static_cast<Sending*>(sending));
  --done->peer->sending_messages;
  done->peer->sending_bytes -= done->bytes;
  --done->endpoint->under_way_;
  done->endpoint->ucx_.request_free(request);
}

void UcxEndpoint::Work() {
  while (deliverable_.empty() && Move()) Fetch();
  Care();
}

void UcxEndpoint::Nudge() {
  if (!IsFull()) Move();
  Care();
}

bool UcxEndpoint::Move() {
  if (!worker_->Progress()) return false;
  moved_ = SteadyNow();
  return true;
}

void UcxEndpoint::Care() {
  Fetch();
  LoseFailed();
  if (SteadyNow() - looked_ < kLookPeriod) return;
  LookAtSockets();
  Maintain(looked_);
}

void UcxEndpoint::LoseFailed() {
  for (const ucp_ep_h ep : std::exchange(failed_, {})) {
    const auto found =
        std::ranges::find_if(peers_, [&](const auto& entry) { return entry.second->ep == ep; });
    if (found != peers_.end()) Lose(PeerPtr(found->second));
  }
}

std::optional<Received> UcxEndpoint::Receive(Duration timeout) {
  const Time deadline = SteadyNow() + std::min<Duration>(timeout, std::chrono::hours(24));
  Inside inside(*this);
  Nudge();  // also while messages are here: others are being sent
  while (true) {
    if (wake_.Take()) return std::nullopt;
    Work();
    if (!refused_.ok()) {
      CountMalformed(std::exchange(refused_, absl::OkStatus()).message());
      return std::nullopt;
    }
    Attempt attempt = Next(inside);
    if (attempt.refused || attempt.received) return std::move(attempt.received);
    const Time now = SteadyNow();
    const Time next = Maintain(now);
    if (now >= deadline) {
      if (now - moved_ > kInactive && !IsAwaited()) active_ = false;
      return std::nullopt;
    }
    if (!spin_.Until(moved_, [&] { return Move(); })) Sleep(inside, std::min(deadline, next));
  }
}

bool UcxEndpoint::HasWork() {
  const Inside inside(*this);
  return !deliverable_.empty() || Move();
}

bool UcxEndpoint::BeginWait() {
  waiting_.emplace(*this);  // so the background thread takes no event that would end the wait
  if (!deliverable_.empty() || !refused_.ok() || !worker_->Arm()) {
    waiting_.reset();
    return false;
  }
  waiting_->Unlock();
  return true;
}

void UcxEndpoint::EndWait() {
  waiting_->Lock();
  LookAtSockets();
  waiting_.reset();
}

void UcxEndpoint::Sleep(Inside& inside, Time until) {
  if (!worker_->Arm()) return;
  inside.Unlock();
  // Rounded up: a poll of 0 ms would spin until the deadline.
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(
      std::max<Duration>(until - SteadyNow(), Duration::zero()));
  pollfd waits[] = {{epoll_.get(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
  (void)::poll(waits, std::size(waits), static_cast<int>(wait.count()));
  inside.Lock();
  LookAtSockets();
}

void UcxEndpoint::Background() {
  std::unique_lock lock(mutex_);
  uint64_t visits = 0;
  Time changed{};
  while (!ending_) {
    if (!watching_) {
      owner_left_.wait(lock, [&] { return watching_ || ending_; });
      changed = SteadyNow();
      continue;
    }
    const bool came = std::exchange(visits, visits_.load(std::memory_order_relaxed)) != visits_;
    if (came) changed = SteadyNow();
    if (!came && !inside_ && IsFull()) {
      owner_left_.wait_for(lock, kBackgroundSleep);
      continue;
    }
    if (!came && !inside_) {
      while (!inside_ && !IsFull() && Move()) Fetch();
      Fetch();
      LoseFailed();
      LookAtSockets();
      Maintain(SteadyNow());
      if (inside_ || !worker_->Arm()) continue;
      lock.unlock();
      pollfd wait{epoll_.get(), POLLIN, 0};
      (void)::poll(&wait, 1, static_cast<int>(kBackgroundSleep / Milliseconds(1)));
      lock.lock();
      continue;
    }
    if (inside_ && SteadyNow() - changed > kStopWatching) {
      watching_ = false;
      if (!inside_) watching_ = true;  // the owner just left, and saw that it is watched
      continue;
    }
    owner_left_.wait_for(lock, kAway);
  }
}

void UcxEndpoint::End() {
  Inside inside(*this);
  ending_ = true;
  owner_left_.notify_one();
  inside.Unlock();
  if (background_.joinable()) background_.join();
  inside.Lock();
  for (const auto& [id, peer] : peers_) {
    if (peer->open && !peer->left) Post(peer, kGoodbye, {}, 0).IgnoreError();
  }
  const auto has_all = [](const auto& entry) {
    const Peer& peer = *entry.second;
    if (!peer.open) return peer.waiting.empty();
    return peer.left && peer.sending_messages == 0;
  };
  const auto work_until = [&](auto done, bool connecting) {
    const Time deadline = SteadyNow() + options_.linger;
    for (Time now = SteadyNow(); !done() && now < deadline; now = SteadyNow()) {
      wake_.Take();
      do {
        while (!deliverable_.empty()) Pop();
        Fetch();
      } while (SteadyNow() < deadline && worker_->Progress());
      LoseFailed();
      LookAtSockets();
      const Time next = connecting ? Maintain(now) : deadline;
      if (!done() && deliverable_.empty()) Sleep(inside, std::min(next, deadline));
    }
  };
  work_until([&] { return std::ranges::all_of(peers_, has_all); }, true);
  for (const auto& [id, peer] : peers_) Close(peer);
  work_until([&] { return under_way_ == 0; }, false);
  worker_.reset();  // it ends what is still under way, for which callbacks need the members
}

UcxWorker::Reach ReachTo(std::span<const Address> addresses) {
  const auto is_here = [](const Address& address) { return IsLoopback(address.host); };
  return std::ranges::all_of(addresses, is_here) ? UcxWorker::Reach::kThisMachine
                                                 : UcxWorker::Reach::kAllNetworks;
}

absl::Status CheckUcxOptions(const TransportOptions& options) {
  if (!options.security) return absl::OkStatus();
  return absl::UnimplementedError(
      "cluster.transport: ucx neither encrypts nor knows who connects; use auto, zmq or grpc in a "
      "secured run");
}

}  // namespace psgd
