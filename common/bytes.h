// Reference-counted bytes: what payloads, slices and frames are made of.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"

namespace psgd {

using ByteSpan = std::span<const std::byte>;

inline ByteSpan AsBytes(std::span<const float> values) { return std::as_bytes(values); }
inline ByteSpan AsBytes(absl::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// Immutable bytes with a shared owner. Copying shares; the owner frees when the last copy goes.
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::shared_ptr<const void> owner, ByteSpan span) : owner_(std::move(owner)), span_(span) {}

  static Bytes CopyOf(ByteSpan span);
  // Takes over a vector without copying it.
  static Bytes Adopt(std::vector<std::byte> bytes);
  // Bytes that outlive every use: constants, or memory whose owner waits for the users.
  static Bytes Unowned(ByteSpan span) { return Bytes(nullptr, span); }

  const std::byte* data() const { return span_.data(); }
  size_t size() const { return span_.size(); }
  bool empty() const { return span_.empty(); }
  ByteSpan span() const { return span_; }
  // A part of these bytes that shares their owner. REQUIRES: offset + size <= this->size().
  Bytes Sub(size_t offset, size_t size) const { return Bytes(owner_, span_.subspan(offset, size)); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  ByteSpan span_;
};

// Recycles large aligned buffers: a fresh page-faulting buffer halves the speed of a big message.
// Thread-safe. Buffers may outlive the pool.
class BufferPool {
 public:
  // `keep_bytes`: how much free memory the pool holds on to.
  explicit BufferPool(size_t keep_bytes);

  // At least `size` bytes, aligned to 64, contents undefined; returns to the pool when released.
  std::shared_ptr<std::byte[]> Take(size_t size);
  // Bytes held free right now.
  size_t free_bytes() const;

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

// A checksum of one or more spans in order: XXH3-64.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void Add(ByteSpan span);
  uint64_t Value() const;

 private:
  void* state_;
};
uint64_t ChecksumOf(ByteSpan span);

}  // namespace psgd
