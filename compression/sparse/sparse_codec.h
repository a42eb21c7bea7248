// The shard's side of the codecs whose payload is that of sparse_payload.h.
#pragma once

#include "compression/sparse/sparse_payload.h"

namespace psgd {

class SparseCodec : public Codec {
 public:
  CodecId id() const final { return id_; }
  absl::string_view name() const final { return name_; }
  bool lossless() const final { return false; }
  absl::StatusOr<std::unique_ptr<PayloadReader>> Open(ByteSpan payload,
                                                      const SliceShape& shape) const final {
    return OpenSparse(payload, shape.elements, name_, kernels_);
  }
  size_t MaxPayload(uint32_t elements) const final { return MaxSparse(elements); }

 protected:
  // REQUIRES: `name` is a literal.
  SparseCodec(CodecId id, absl::string_view name, const CodecKernels& kernels)
      : id_(id), name_(name), kernels_(kernels) {}
  const CodecKernels& kernels() const { return kernels_; }

 private:
  const CodecId id_;
  const absl::string_view name_;
  const CodecKernels& kernels_;
};

}  // namespace psgd
