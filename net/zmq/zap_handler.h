// Decides for ZeroMQ who may connect: its authentication protocol (ZAP, RFC 27), answered from a
// list.
#pragma once

#include <memory>
#include <thread>
#include <zmq.hpp>

#include "net/allow_list.h"
#include "net/zmq/wake_event.h"

namespace psgd {

// Answers on a thread of its own, so that handshakes do not wait for a busy shard. There is one at
// most in a context, from before its first socket listens until after the last one is closed:
// without a handler ZeroMQ lets in whoever encrypts. Peers that it lets in carry their public key
// as the "User-Id" of their messages.
class ZapHandler {
 public:
  ZapHandler(zmq::context_t& context, std::shared_ptr<const AllowList> allowed);
  ~ZapHandler();

 private:
  void Serve();
  void Answer();

  const std::shared_ptr<const AllowList> allowed_;
  zmq::socket_t socket_;  // the thread's, once it runs
  WakeEvent stop_;
  std::thread thread_;
};

}  // namespace psgd
