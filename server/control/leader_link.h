// A link to whoever leads: the run, or a shard. It connects, says hello and receives, and tries
// again when the connection is lost.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/log.h"
#include "common/status.h"
#include "server/control/peer_client.h"
#include "server/control/task_queue.h"

namespace psgd {

// Thread-safe.
template <typename Says, typename Hears>
class LeaderLink {
 public:
  using Stream = CalledStream<Says, Hears>;
  struct Options {
    std::function<absl::StatusOr<std::unique_ptr<Stream>>(const std::string& address)> call;
    Says hello;
    // Called on the link's thread, once hello is said and for each message. An error ends the
    // connection.
    std::function<void()> on_connected = [] {};
    std::function<absl::Status(const Hears&)> on_message;
    std::string leader;  // who leads, for people
    Log log = NullLog();
  };

  explicit LeaderLink(Options options) : options_(std::move(options)), thread_([this] { Run(); }) {}
  ~LeaderLink() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      Disconnect();
    }
    thread_.join();
  }

  // Connects to the server at `address` from now on; empty: to no server.
  void SetLeader(const std::string& address) {
    std::lock_guard lock(mutex_);
    if (address == leader_) return;
    leader_ = address;
    Disconnect();
  }
  bool connected() {
    std::lock_guard lock(mutex_);
    return connection_ != nullptr;
  }
  // Without a connection, nothing is sent.
  void Send(Says says) {
    SendAll([says = std::move(says)](Stream* stream) { return stream->Send(says); });
  }
  // For a message in several pieces. `send` returns false once the stream has ended.
  void SendAll(std::function<bool(Stream*)> send) {
    std::lock_guard lock(mutex_);
    if (connection_ == nullptr) return;
    connection_->queue.Post(
        [stream = connection_->stream.get(), send = std::move(send)] { return send(stream); });
  }

 private:
  struct Connection {
    explicit Connection(std::unique_ptr<Stream> to) : stream(std::move(to)) {}
    ~Connection() { stream->End(); }  // the queue's thread may be sending

    const std::unique_ptr<Stream> stream;
    TaskQueue queue;
  };

  // REQUIRES: mutex_ is held.
  void Disconnect() {
    if (connection_ != nullptr) connection_->stream->End();
    changed_.notify_all();
  }

  void Run() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || !leader_.empty(); });
      if (ended_) return;
      const std::string leader = leader_;
      lock.unlock();
      const absl::Status why = Talk(leader);
      options_.log->debug("the link to {} at {} ended: {}", options_.leader, leader,
                          why.ToString());
      lock.lock();
      changed_.wait_for(lock, kPeerRetry, [&] { return ended_ || leader_ != leader; });
    }
  }

  absl::Status Talk(const std::string& leader) {
    PSGD_ASSIGN_OR_RETURN(auto stream, options_.call(leader));
    const auto connection = std::make_shared<Connection>(std::move(stream));
    // Hello comes before all that Send sends.
    if (!connection->stream->Send(options_.hello)) return connection->stream->WhyEnded();
    {
      std::lock_guard lock(mutex_);
      if (ended_ || leader_ != leader) return absl::CancelledError("another server leads by now");
      connection_ = connection;
    }
    options_.on_connected();
    Hears hears;
    absl::Status broken;
    while (broken.ok() && connection->stream->Receive(&hears)) broken = options_.on_message(hears);
    {
      std::lock_guard lock(mutex_);
      connection_.reset();
    }
    return broken.ok() ? connection->stream->WhyEnded() : broken;
  }

  const Options options_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string leader_;
  std::shared_ptr<Connection> connection_;  // null: there is none
  bool ended_ = false;
  std::thread thread_;
};

using RunLink = LeaderLink<ServerSays, LeaderSays>;
using FollowLink = LeaderLink<FollowingSays, LeadingSays>;

}  // namespace psgd
