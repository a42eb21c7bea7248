// A stream from another server, as the server that is called sees it.
#pragma once

#include "common/clock.h"

namespace psgd {

// Of a server with another one that does not answer, and before it tries again.
inline constexpr Duration kPeerPatience = std::chrono::milliseconds(500);
inline constexpr Duration kPeerRetry = std::chrono::milliseconds(50);

// One thread may receive while another sends.
template <typename Sent, typename Received>
class PeerStream {
 public:
  virtual ~PeerStream() = default;
  // False: it has ended.
  virtual bool Send(const Sent& message) = 0;
  virtual bool Receive(Received* message) = 0;
  // Ends it: calls that wait return false. Thread-safe.
  virtual void End() = 0;
};

}  // namespace psgd
