// Connects a ZeroMQ socket to a name of several addresses: tries them in turn. ZeroMQ itself tries
// only the first.
#pragma once

#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "common/clock.h"
#include "net/address.h"
#include "net/resolve.h"
#include "net/zmq/socket_events.h"

namespace psgd {

// Belongs to the socket's thread.
class AddressTurns {
 public:
  // Connects to the first of `hosts`, the addresses of the name in digits. REQUIRES: the socket has
  // not connected, and outlives this; `hosts` is not empty.
  AddressTurns(zmq::context_t& context, zmq::socket_t& socket, Address name,
               std::vector<std::string> hosts);

  // Readable when Look has something to do.
  zmq::socket_t& events() { return events_.socket(); }
  // Takes the next address if the present one gives no connection. Messages that wait in the socket
  // are then lost, as when a connection breaks.
  void Look(Time now);
  // Whether any address gave a connection. Until then nothing may be sent.
  bool reached() const { return reached_; }

 private:
  bool Connect();
  void TakeNext(Time now);

  const Address name_;
  void* const socket_;
  SocketEvents events_;
  std::vector<std::string> hosts_;
  size_t at_ = 0;                 // of them
  std::string connected_;         // this address, as ZeroMQ was told
  std::optional<Lookup> lookup_;  // for the next round: the addresses may be others by then
  bool reached_ = false;
  bool up_ = false;      // there was a connection, and ZeroMQ did not try to connect again
  bool failed_ = false;  // the address at hand
  Duration wait_;        // between two rounds
  Time next_{};          // no other address before this
};

}  // namespace psgd
