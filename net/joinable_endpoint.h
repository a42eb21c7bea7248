// An endpoint at which an owner of several waits for all of them (net/auto).
#pragma once

#include <utility>

#include "net/endpoint_base.h"

namespace psgd {

class JoinableEndpoint : public EndpointBase {
 public:
  using EndpointBase::EndpointBase;

  // Receive ends when `fd` is readable, too. Call it once, before the first Receive.
  virtual void AlsoEndOn(int fd) = 0;
  // Whether the last Receive ended because of Wake.
  bool TakeWoken() { return std::exchange(woken_, false); }

 protected:
  bool woken_ = false;
};

}  // namespace psgd
