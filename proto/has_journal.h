// Whether the servers of a run keep a journal of what their shards absorb.
#pragma once

#include "proto/config.pb.h"

namespace psgd {

inline bool HasJournal(const Config& config) {
  return config.durability().acknowledge() != DurabilityConfig::MEMORY;
}

}  // namespace psgd
