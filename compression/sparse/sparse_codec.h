// The shard's side of the codecs whose payload is that of sparse_payload.h.
#pragma once

#include "compression/sparse/sparse_payload.h"

namespace psgd {

class SparseCodec : public Codec {
 public:
  using Codec::Codec;

  StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const final {
    return OpenSparse(payload, shape.elements, name(), kernels());
  }
  size_t MaxPayload(uint32_t elements) const final { return MaxSparse(elements); }
};

}  // namespace psgd
