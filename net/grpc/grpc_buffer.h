// Bytes as gRPC carries them, and back.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <span>

#include "common/bytes.h"

namespace psgd {

// A buffer that refers to the frames and keeps their owners alive.
grpc::ByteBuffer ShareFrames(std::span<const Bytes> frames);

// The message as one contiguous piece: shared if gRPC has it so, else copied once, into a pooled
// buffer and such that the first payload is aligned.
Bytes Contiguous(const grpc::ByteBuffer& buffer, BufferPool* pool);

}  // namespace psgd
