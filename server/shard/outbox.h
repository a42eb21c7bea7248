// Messages that a shard has made and that its driver sends.
#pragma once

#include <vector>

#include "net/message.h"
#include "net/transport.h"

namespace psgd {

struct Outgoing {
  PeerId to = 0;
  Message message;
};
using Outbox = std::vector<Outgoing>;

}  // namespace psgd
