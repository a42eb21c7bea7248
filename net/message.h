// A message of the data plane: a protobuf header, and raw payloads that are never copied into it.
#pragma once

#include <vector>

#include "common/bytes.h"
#include "proto/data.pb.h"

namespace psgd {

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
