// The link from a following copy to the leading copy. Only the .cc includes gRPC.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/log.h"
#include "net/credentials.h"
#include "proto/peers.pb.h"
#include "server/cluster/copy_core.h"

namespace psgd {

struct FollowLinkOptions {
  uint32_t shard = 0;
  uint32_t server = 0;  // this server
  std::string run_id;
  std::shared_ptr<const Credentials> credentials;
  Duration patience{};  // how long a server may take to answer
  Duration retry{};
  // Called on the link's thread: the leading copy is reached; a message has come; a piece of a
  // message has come.
  std::function<void()> on_connected;
  std::function<void(CopyMessage)> on_copy;
  std::function<void()> on_part;
  Log log = NullLog();
};

// Thread-safe.
class FollowLink {
 public:
  explicit FollowLink(FollowLinkOptions options);
  ~FollowLink();

  // The leading copy is on the server at `address` from now on; empty: on no server.
  void SetLeader(const std::string& address);
  // Does nothing without a connection. REQUIRES: `message` is a Has or a Written.
  void Send(const CopyMessage& message);

 private:
  struct Connection;

  void Run();
  std::string Next();
  absl::Status Talk(const std::string& leader);

  const FollowLinkOptions options_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string leader_;
  std::shared_ptr<Connection> connection_;  // null: there is none
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace psgd
