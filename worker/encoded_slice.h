// An update in the form in which it travels to a shard.
#pragma once

#include <cstdint>
#include <vector>

#include "common/bytes.h"
#include "compression/lossless.h"
#include "proto/data.pb.h"

namespace psgd {

struct EncodedSlice {
  uint32_t slice = 0;
  CodecId codec = CODEC_NONE;
  Bytes payload;
  std::vector<uint32_t> also = {};  // further slices that the payload is for, ascending
  PackedPayload packed = {};        // travels in place of the payload, unless it has 0 planes

  const Bytes& travels() const { return packed.planes == 0 ? payload : packed.frame; }
};

}  // namespace psgd
