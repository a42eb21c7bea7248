// Converts Bytes to gRPC buffers and back.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <span>

#include "common/bytes.h"

namespace psgd {

// Returns a buffer that refers to the frames and keeps their owners alive.
grpc::ByteBuffer ShareFrames(std::span<const Bytes> frames);

// Returns the message as one contiguous piece. If gRPC has several pieces, they are copied once,
// into a pooled buffer with the first payload aligned; otherwise the piece is shared.
Bytes Contiguous(const grpc::ByteBuffer& buffer, BufferPool* pool);

}  // namespace psgd
