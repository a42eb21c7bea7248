// The shared part of both UCX endpoints: messages, waiting, and lost peers.
//
// A message is one active message. Its header is the first frame, or what precedes the payloads if
// that frame is large, and its data are the rest. UCX sends small ones at once. For a large one it
// announces the data, and the receiver fetches them from where they lie: the next message of each
// peer at once, others once `queue_bytes` allows it.
//
// UCX moves messages only while somebody calls Progress. The owner does so inside Send and Receive.
// While it computes, the background thread does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "common/file_descriptor.h"
#include "net/joinable_endpoint.h"
#include "net/spin.h"
#include "net/ucx/greeting.h"
#include "net/ucx/ucx_worker.h"
#include "net/wake_event.h"

namespace psgd {

class UcxEndpoint : public JoinableEndpoint {
 public:
  ~UcxEndpoint() override;

  std::optional<Received> Receive(Duration timeout) final;
  void Wake() final { wake_.Set(); }
  bool HasWork() final;
  bool BeginWait() final;
  void EndWait() final;
  int fd() const final { return epoll_.get(); }

 protected:
  // What came from a peer, in its order.
  struct Incoming {
    enum class State { kAnnounced, kComing, kHere, kTooLarge, kLost };
    State state = State::kAnnounced;
    Bytes header;
    std::shared_ptr<std::byte[]> data;
    size_t data_bytes = 0;
    size_t cost = 0;            // what it takes of the queue
    void* announced = nullptr;  // UCX's name of data that are to be fetched
  };
  using IncomingPtr = std::shared_ptr<Incoming>;

  struct Peer {
    PeerId id = 0;
    uint64_t attempt = 0;    // of connecting
    FileDescriptor control;  // closed: not connected
    GreetingReader reader;
    std::string failure;        // why the latest connection failed; empty: none did, or it is met
    bool met = false;           // its greeting came
    bool open = false;          // messages may be sent; then it is met
    ucp_ep_h ep = nullptr;      // once it is met
    uint64_t their_number = 0;  // of this endpoint at the peer
    bool left = false;          // it said goodbye, or heard ours
    size_t sending_messages = 0, sending_bytes = 0;
    std::deque<EncodedMessage> waiting;  // until it is open
    size_t waiting_bytes = 0;
    std::deque<IncomingPtr> incoming;
    std::deque<IncomingPtr> announced;  // of them, in order
    size_t coming = 0;                  // of them: being fetched
    bool answers_goodbye = false;       // once nothing is announced or coming

    // The peer puts it into each message to this endpoint.
    uint64_t number() const { return attempt << 32 | id; }
  };
  using PeerPtr = std::shared_ptr<Peer>;

  // A time inside Send or Receive, with the lock.
  class Inside {
   public:
    explicit Inside(UcxEndpoint& endpoint);
    ~Inside();
    void Unlock() { lock_.unlock(); }
    void Lock() { lock_.lock(); }

   private:
    UcxEndpoint& endpoint_;
    std::unique_lock<std::mutex> lock_;
  };

  UcxEndpoint(const TransportOptions& options, std::unique_ptr<UcxWorker> worker,
              FileDescriptor epoll);

  // All below: REQUIRES the lock. The background thread calls them, too.

  // The peer's greeting came. Messages wait until Open.
  virtual void OnMet(const PeerPtr& peer) = 0;
  // The peer answered a probe.
  virtual void OnAnswered(const PeerPtr& /*peer*/) {}
  // The connection failed or ended, and is closed.
  virtual void OnLost(const PeerPtr& peer) = 0;
  // The socket that the endpoint watches with kOwnKey is readable.
  virtual void OnOwnSocket() {}
  // Whether peers may ask for an answer although no message moves.
  virtual bool IsAwaited() const { return false; }
  // The connection to the peer is made.
  virtual void OnConnected(const PeerPtr& /*peer*/) {}
  // Called after each look at the sockets. Returns when to call it again at the latest.
  virtual Time Maintain(Time now) = 0;

  // Keys of sockets; a peer's is its number.
  static constexpr uint64_t kUcxKey = UINT64_MAX, kOwnKey = UINT64_MAX - 1;
  // Reports a socket under the key until it is closed. `made`: also once it is connected.
  void WatchSocket(int fd, uint64_t key, bool made = false);
  void StopWatching(int fd, uint64_t key);

  // Loses a peer that cannot be greeted.
  void Greet(const PeerPtr& peer);
  // Ends the connection at once, without OnLost.
  void Close(const PeerPtr& peer);
  void Lose(const PeerPtr& peer);
  // Asks a peer that is met for an answer over UCX.
  void Probe(const PeerPtr& peer);
  // Sends what waits for the peer, which is met, and what comes later.
  void Open(const PeerPtr& peer);
  // The device over which UCX reaches a peer that is met, as "tcp/eth0".
  std::string DeviceOf(const Peer& peer) const;
  // Queues the message until the peer is open. UNAVAILABLE: it was open, and the connection broke.
  absl::Status SendTo(const PeerPtr& peer, const Message& message);
  // Lets peers hear goodbye, and waits until they have all messages, or for the linger time.
  // Derived destructors call it, for OnLost is theirs.
  void End();

  std::unique_ptr<UcxWorker> worker_;  // null at the very end
  std::unordered_map<PeerId, PeerPtr> peers_;

 private:
  // What peers send each other. Part of the protocol: do not change.
  enum Kind : unsigned { kMessage, kGoodbye, kGoodbyeHeard, kProbe, kProbeHeard };
  struct Sending;
  struct Fetching;
  template <Kind kind>
  static ucs_status_t OnActiveMessage(void* arg, const void* header, size_t header_bytes,
                                      void* data, size_t data_bytes,
                                      const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* sending);
  static void OnFetched(void* request, ucs_status_t status, size_t bytes, void* fetching);
  static void OnClosed(void* request, ucs_status_t status, void* endpoint);
  static void OnError(void* endpoint, ucp_ep_h ep, ucs_status_t status);

  PeerPtr PeerOf(uint64_t number) const;
  // Whether the queue of the peer has room for so many bytes.
  bool HasRoom(const Peer& peer, size_t bytes) const;
  absl::Status Post(const PeerPtr& peer, EncodedMessage message);
  absl::Status Post(const PeerPtr& peer, Kind kind, std::vector<Bytes> frames, size_t bytes);
  // Data that are `announced` lie with the peer, others at `data`.
  ucs_status_t Take(const PeerPtr& peer, ByteSpan header, void* data, size_t data_bytes,
                    bool announced);
  void AnswerGoodbye(const PeerPtr& peer);
  void StartFetching(const PeerPtr& peer, const IncomingPtr& incoming);
  void Settle(const PeerPtr& peer, const IncomingPtr& incoming, Incoming::State state);
  // Starts to fetch announced data, as far as there is room.
  void Fetch();
  // Lets UCX work until a message is here or nothing happens.
  void Work();
  // Lets UCX work once, unless the receive queue is full, and looks after connections.
  void Nudge();
  // Whether UCX did something.
  bool Move();
  // Looks after connections, from time to time, and after announced data.
  void Care();
  void LoseFailed();
  void LookAtSockets();
  void OnControl(const PeerPtr& peer);
  absl::Status Meet(const PeerPtr& peer, const UcxGreeting& greeting);
  // Takes the first message that is here or failed.
  std::pair<PeerPtr, IncomingPtr> Pop();
  // The next message that is here.
  Attempt Next(Inside& inside);
  bool IsFull() const { return here_bytes_ > options_.queue_bytes; }
  // Sleeps until something happens, Wake, or `until`.
  void Sleep(Inside& inside, Time until);
  void Background();

  const UcxLibrary& ucx_;
  const FileDescriptor epoll_;
  std::mutex mutex_;
  BufferPool buffers_;
  std::vector<ucp_ep_h> failed_;     // noted by callbacks, which must not close connections
  std::deque<PeerPtr> deliverable_;  // the first message of each is here
  std::deque<PeerPtr> announcing_;   // each has announced data
  bool may_fetch_ = false;           // something changed since the last Fetch
  // Bytes of messages that are not taken yet: those that have arrived, and those on the way.
  size_t here_bytes_ = 0, coming_bytes_ = 0;
  Time looked_{};  // when it last looked at the sockets
  Spin spin_;
  Time moved_{};          // when UCX last did something, or a message left
  absl::Status refused_;  // why a greeting was refused
  bool said_unmet_ = false;

  WakeEvent wake_;
  std::optional<Inside> waiting_;     // the owner, from BeginWait to EndWait
  std::atomic<size_t> under_way_{0};  // requests that UCX works on
  std::atomic<bool> active_{false};   // messages came or went of late, or peers await answers
  std::atomic<bool> inside_{false};
  std::atomic<uint64_t> visits_{0};  // of the owner
  // The background thread checks now and then whether the owner is away; otherwise it sleeps.
  std::atomic<bool> watching_{false};
  bool ending_ = false;
  std::condition_variable owner_left_;
  std::thread background_;
};

StatusOrEndpoint ListenUcx(const std::string& address, const TransportOptions& options);
// Probes the way to each address before messages take it. Where no answer comes, it warns once and
// goes on trying.
StatusOrEndpoint ConnectUcx(const std::vector<std::string>& addresses,
                            const TransportOptions& options);
// Gets the index of an address. OK: its first answer over UCX came. UNAVAILABLE: no answer comes,
// and why. Any thread may call it.
using OnOutcome = std::function<void(PeerId peer, const absl::Status& outcome)>;
// As ConnectUcx, but gives up an address from which no answer comes. Messages sent there are lost.
StatusOrEndpoint ConnectUcxOrGiveUp(const std::vector<std::string>& addresses,
                                    const TransportOptions& options, OnOutcome on_outcome);

// What an endpoint needs for these addresses.
UcxWorker::Reach ReachTo(std::span<const Address> addresses);

// UNIMPLEMENTED: the options ask for security, which UCX lacks.
absl::Status CheckUcxOptions(const TransportOptions& options);

}  // namespace psgd
