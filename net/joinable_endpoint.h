// An endpoint that an owner of several waits for together with others (net/auto).
#pragma once

#include "net/endpoint_base.h"

namespace psgd {

class JoinableEndpoint : public EndpointBase {
 public:
  using EndpointBase::EndpointBase;

  // Whether Receive has something to do. Cheap, for an owner that asks again and again.
  virtual bool HasWork() = 0;
  // Until EndWait, fd() becomes readable when Receive has something to do. False: Receive has
  // something to do now, so no wait began.
  virtual bool BeginWait() = 0;
  virtual void EndWait() = 0;
  virtual int fd() const = 0;
};

}  // namespace psgd
