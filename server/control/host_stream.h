// A connection to a server that holds shards, as the coordinator sees it.
#pragma once

#include "proto/hosting.pb.h"

namespace psgd {

// One thread may receive while another sends. Both return false once the other side is gone.
class HostStream {
 public:
  virtual ~HostStream() = default;
  virtual bool Send(const HostTold& told) = 0;
  virtual bool Receive(HostSays* says) = 0;
  // Makes calls that wait return false. Thread-safe.
  virtual void End() = 0;
};

}  // namespace psgd
