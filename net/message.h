// A message of the data plane: a protobuf header, and raw payloads that are never copied into it.
#pragma once

#include <vector>

#include "common/bytes.h"
#include "proto/data.pb.h"

namespace psgd {

// Senders put at most so many parts, each a payload or a part of one, into a message: their fields
// and sizes then stay below the limits of wire_format.h.
constexpr int kMostParts = 32768;

struct Message {
  DataHeader header;  // payload_sizes is filled by the wire format
  std::vector<Bytes> payloads;

  size_t PayloadBytes() const {
    size_t sum = 0;
    for (const Bytes& payload : payloads) sum += payload.size();
    return sum;
  }
};

}  // namespace psgd
