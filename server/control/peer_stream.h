// A stream from another server, on the side of the called server.
#pragma once

#include "common/clock.h"

namespace psgd {

// How long a server waits for another server's answer, and then before its next try.
inline constexpr Duration kPeerPatience = std::chrono::milliseconds(500);
inline constexpr Duration kPeerRetry = std::chrono::milliseconds(50);

// One thread may receive while another sends.
template <typename Sent, typename Received>
class PeerStream {
 public:
  virtual ~PeerStream() = default;
  // False: the stream has ended.
  virtual bool Send(const Sent& message) = 0;
  virtual bool Receive(Received* message) = 0;
  // Ends the stream: waiting calls return false. Thread-safe.
  virtual void End() = 0;
};

}  // namespace psgd
