// This server's link to the run's leader. Only the .cc includes gRPC.
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

// All events are called on the link's thread, with the number of the connection.
struct RunLinkEvents {
  std::function<void(uint64_t connection, const LeaderSays::Begin&)> on_begin;
  std::function<void(uint64_t connection, LeaderSays)> on_message;
  // The connection ended or could not be made, with the reason.
  std::function<void(uint64_t connection, const absl::Status&)> on_gone;
};

struct RunLinkOptions {
  std::string name;  // this server's name, for people
  std::shared_ptr<const Credentials> credentials;
  Duration patience{};  // how long a server may take to answer
  Duration retry{};
  RunLinkEvents events;
};

// Asks a server of the run for the run's config and, in a secured run, its keys.
absl::StatusOr<LeaderSays::Begin> AskForRun(const std::string& server,
                                            const Credentials* credentials, const std::string& name,
                                            Duration patience);

// Thread-safe.
class RunLink {
 public:
  explicit RunLink(RunLinkOptions options);
  ~RunLink();

  // Connects to the server at `address` from now on; empty: to no server.
  void SetLeader(const std::string& address);
  // Without a connection, nothing is sent.
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
