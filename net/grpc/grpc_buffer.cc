#include "net/grpc/grpc_buffer.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "net/handoff.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

grpc::Slice Share(const Bytes& bytes) {
  // gRPC never writes to what it sends.
  auto* data = const_cast<std::byte*>(bytes.data());
  return grpc::Slice(data, bytes.size(), Handoff::Release, Handoff::Take(bytes));
}

Bytes Own(grpc::Slice slice) {
  auto owner = std::make_shared<grpc::Slice>(std::move(slice));
  const ByteSpan span(reinterpret_cast<const std::byte*>(owner->begin()), owner->size());
  return Bytes(std::move(owner), span);
}

// Returns how far to shift the message so that its body begins aligned. Uses the unchecked header
// length only modulo the alignment.
size_t Shift(const std::vector<grpc::Slice>& slices) {
  const grpc::Slice& first = slices.front();
  if (first.size() < kHeaderBytesAt + sizeof(uint32_t)) return 0;
  uint32_t header_bytes;
  std::memcpy(&header_bytes, first.begin() + kHeaderBytesAt, sizeof(header_bytes));
  const size_t body_at = (kPreludeBytes + header_bytes % kPayloadAlignment) % kPayloadAlignment;
  return (kPayloadAlignment - body_at) % kPayloadAlignment;
}

}  // namespace

grpc::ByteBuffer ShareFrames(std::span<const Bytes> frames) {
  std::vector<grpc::Slice> slices;
  slices.reserve(frames.size());
  for (const Bytes& frame : frames) slices.push_back(Share(frame));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

Bytes Contiguous(const grpc::ByteBuffer& buffer, BufferPool* pool) {
  grpc::Slice whole;
  if (buffer.TrySingleSlice(&whole).ok()) return Own(std::move(whole));
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok() || slices.empty()) return Bytes();
  const size_t shift = Shift(slices);
  size_t size = 0;
  for (const grpc::Slice& slice : slices) size += slice.size();
  std::shared_ptr<std::byte[]> copy = pool->Take(shift + size);
  std::byte* const begin = copy.get() + shift;
  std::byte* to = begin;
  for (const grpc::Slice& slice : slices) {
    std::memcpy(to, slice.begin(), slice.size());
    to += slice.size();
  }
  return Bytes(std::move(copy), ByteSpan(begin, size));
}

}  // namespace psgd
