#include "common/bytes.h"

#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>  // after xxhash.h: the loops for this processor's widest vectors
#endif

#include <bit>
#include <cstdlib>
#include <map>
#include <new>

namespace psgd {

static_assert(std::endian::native == std::endian::little,
              "payloads are written in memory order; a big-endian port must swap them");

Bytes Bytes::CopyOf(ByteSpan span) {
  return Adopt(std::vector<std::byte>(span.begin(), span.end()));
}

Bytes Bytes::Adopt(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  const ByteSpan span(*owner);
  return Bytes(std::move(owner), span);
}

namespace {
constexpr size_t kAlignment = 64;
constexpr size_t kSmallest = 4096;

// Rounds sizes above kSmallest up by at most 1/64. So little memory is lost, and buffers of almost
// equal size can replace each other.
size_t CapacityFor(size_t size) {
  if (size <= kSmallest) return kSmallest;
  const size_t step = std::bit_floor(size) / 64;
  return (size + step - 1) / step * step;
}
}  // namespace

struct BufferPool::Shelf {
  explicit Shelf(size_t keep) : keep_bytes(keep) {}
  ~Shelf() {
    for (auto& [capacity, buffers] : free) {
      for (std::byte* buffer : buffers) std::free(buffer);
    }
  }

  // Returns a buffer of `*capacity` bytes or up to 1/8 more, and sets `*capacity` to its size.
  std::byte* Take(size_t* capacity) {
    {
      std::lock_guard lock(mutex);
      const size_t most = *capacity + *capacity / 8;
      for (auto it = free.lower_bound(*capacity); it != free.end() && it->first <= most; ++it) {
        if (it->second.empty()) continue;
        std::byte* buffer = it->second.back();
        it->second.pop_back();
        *capacity = it->first;
        held_bytes -= *capacity;
        return buffer;
      }
    }
    void* buffer = std::aligned_alloc(kAlignment, *capacity);
    if (buffer == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(buffer);
  }

  void Give(std::byte* buffer, size_t capacity) {
    {
      std::lock_guard lock(mutex);
      if (held_bytes + capacity <= keep_bytes) {
        free[capacity].push_back(buffer);
        held_bytes += capacity;
        return;
      }
    }
    std::free(buffer);
  }

  const size_t keep_bytes;
  mutable std::mutex mutex;
  std::map<size_t, std::vector<std::byte*>> free;  // by capacity
  size_t held_bytes = 0;
};

BufferPool::BufferPool(size_t keep_bytes) : shelf_(std::make_shared<Shelf>(keep_bytes)) {}

std::shared_ptr<std::byte[]> BufferPool::Take(size_t size) {
  size_t capacity = CapacityFor(size);
  std::byte* const buffer = shelf_->Take(&capacity);
  return {buffer, [shelf = shelf_, capacity](std::byte* gone) { shelf->Give(gone, capacity); }};
}

size_t BufferPool::free_bytes() const {
  std::lock_guard lock(shelf_->mutex);
  return shelf_->held_bytes;
}

Checksum::Checksum() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}
Checksum::~Checksum() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void Checksum::Add(ByteSpan span) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), span.data(), span.size());
}
uint64_t Checksum::Value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}
uint64_t ChecksumOf(ByteSpan span) { return XXH3_64bits(span.data(), span.size()); }

}  // namespace psgd
