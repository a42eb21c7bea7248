// A connection to one follower for one log, as the leader sees it.
#pragma once

#include "proto/replication.pb.h"

namespace psgd {

// One thread may send while another receives. Both return false once the follower is gone.
class FollowerStream {
 public:
  virtual ~FollowerStream() = default;
  virtual bool Send(const LogPart& part) = 0;
  virtual bool Receive(FollowerSays* says) = 0;
  // The follower went away, or the server ends.
  virtual bool gone() const = 0;
  // Makes calls that wait return false.
  virtual void End() = 0;
};

}  // namespace psgd
