// Decides for ZeroMQ which peers may connect. Answers its authentication protocol (ZAP, RFC 27)
// from an AllowList.
#pragma once

#include <memory>
#include <thread>
#include <zmq.hpp>

#include "net/allow_list.h"
#include "net/wake_event.h"

namespace psgd {

// Answers on its own thread, so that handshakes do not wait for a busy shard. A context has at most
// one handler. It must exist before the first socket listens and until the last socket is closed:
// without a handler ZeroMQ admits every peer that encrypts. Messages of an admitted peer carry its
// public key as "User-Id".
class ZapHandler {
 public:
  ZapHandler(zmq::context_t& context, std::shared_ptr<const AllowList> allowed);
  ~ZapHandler();

 private:
  void Serve();
  void Answer();

  const std::shared_ptr<const AllowList> allowed_;
  zmq::socket_t socket_;  // belongs to the thread, once the thread runs
  WakeEvent stop_;
  std::thread thread_;
};

}  // namespace psgd
