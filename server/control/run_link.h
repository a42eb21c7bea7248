// This server's link to the one that leads the run. Hides gRPC: only the .cc includes it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/peers.pb.h"
#include "server/shard/shard_core.h"

namespace psgd {

// All are called on the link's thread, with the number of the connection.
struct RunLinkEvents {
  std::function<void(uint64_t connection, const LeaderSays::Begin&)> on_begin;
  std::function<void(uint64_t connection, LeaderSays)> on_message;
  // It ended, or there was none: why.
  std::function<void(uint64_t connection, const absl::Status&)> on_gone;
};

struct RunLinkOptions {
  std::string name;  // of this server, for people
  std::shared_ptr<const Credentials> credentials;
  Duration patience{};  // with a server that does not answer
  Duration retry{};
  RunLinkEvents events;
};

// What a server is told first by one of the run: its config and, of a secured one, its keys.
absl::StatusOr<LeaderSays::Begin> AskForRun(const std::string& server,
                                            const Credentials* credentials, const std::string& name,
                                            Duration patience);

// Thread-safe.
class RunLink {
 public:
  explicit RunLink(RunLinkOptions options);
  ~RunLink();

  // Connects to that server from now on; empty: to none.
  void SetLeader(const std::string& address);
  // Nothing is sent where the connection is not there.
  void Send(ServerSays says);
  void SendCut(uint32_t shard, std::shared_ptr<const ShardCut> cut);

 private:
  struct Connection;

  void Run();
  // Waits for a server to connect to; empty: the link ends.
  std::string Next();
  void Talk(const std::string& leader, uint64_t number);

  const RunLinkOptions options_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string leader_;
  std::shared_ptr<Connection> connection_;  // null: there is none
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace psgd
