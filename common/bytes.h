// Reference-counted bytes. Payloads, slices and frames consist of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"

namespace psgd {

using ByteSpan = std::span<const std::byte>;

inline ByteSpan AsBytes(std::span<const float> values) { return std::as_bytes(values); }
inline ByteSpan AsBytes(absl::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// Numbers in wire and file formats: little-endian, at any address.
template <typename T>
T LoadField(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void StoreField(const T& value, std::byte* at) {
  std::memcpy(at, &value, sizeof(T));
}

// Immutable bytes with a shared owner. A copy shares the owner, which is freed with the last copy.
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::shared_ptr<const void> owner, ByteSpan span) : owner_(std::move(owner)), span_(span) {}

  static Bytes CopyOf(ByteSpan span);
  // Takes over a vector without copying it.
  static Bytes Adopt(std::vector<std::byte> bytes);
  // For bytes that outlive every use: constants, or memory whose owner waits for the users.
  static Bytes Unowned(ByteSpan span) { return Bytes(nullptr, span); }

  const std::byte* data() const { return span_.data(); }
  size_t size() const { return span_.size(); }
  bool empty() const { return span_.empty(); }
  ByteSpan span() const { return span_; }
  // Returns a part that shares the owner. REQUIRES: offset + size <= this->size().
  Bytes Sub(size_t offset, size_t size) const { return Bytes(owner_, span_.subspan(offset, size)); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  ByteSpan span_;
};

// Recycles large aligned buffers. Page faults of a fresh buffer halve the speed of a big message.
// Thread-safe. Buffers may outlive the pool.
class BufferPool {
 public:
  // `keep_bytes`: the most free memory that the pool keeps.
  explicit BufferPool(size_t keep_bytes);

  // Returns at least `size` bytes, aligned to 64, contents undefined. A released buffer goes back
  // to the pool.
  std::shared_ptr<std::byte[]> Take(size_t size);
  // Returns the free bytes that the pool holds now.
  size_t free_bytes() const;

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

// The XXH3-64 checksum of one or more spans in order.
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
