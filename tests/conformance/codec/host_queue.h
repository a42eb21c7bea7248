// Runs the codecs' kernels on a host. Each launch is a loop over its blocks, each phase a loop over
// its threads, from the first to the last. Backward loops reveal code that depends on the order.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "compression/cuda/block.h"

namespace psgd::codec_test {

class HostQueue {
 public:
  explicit HostQueue(bool backwards) : backwards_(backwards) {}

  // Frees all scratch memory.
  void Begin() { scratch_.clear(); }

  void SkipIf(const uint32_t* flag) { skip_ = flag; }

  template <typename Body>
  void Launch(uint32_t blocks, const Body& body) {
    if (Skips()) return;
    auto shared = std::make_unique<typename Body::Shared>();
    for (uint32_t b = 0; b < blocks; ++b) {
      // Shared memory holds garbage at first, as on a device.
      std::memset(static_cast<void*>(shared.get()), kGarbage, sizeof(*shared));
      body(cuda::Block(backwards_ ? blocks - 1 - b : b, blocks, backwards_), *shared);
    }
  }

  template <typename Flag>
  void Select(uint32_t count, const Flag& flag, uint32_t* out, uint32_t* found) {
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (!Skips() && flag(i)) out[chosen++] = i;
    }
    if (count > 0) *found = chosen;
  }

  template <typename Of>
  void Scan(uint32_t count, const Of& of, uint32_t* out) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; ++i) {
      out[i] = sum;
      if (!Skips()) sum += of(i);
    }
  }

  template <typename T>
  void Zero(T* at, size_t count) {
    std::memset(at, 0, count * sizeof(T));
  }

  // Has exactly that size, so that a sanitizer detects an access beyond the end.
  template <typename T>
  T* Scratch(size_t count) {
    const size_t bytes = count * sizeof(T);
    std::byte* memory = scratch_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
    std::memset(memory, kGarbage, bytes);
    return reinterpret_cast<T*>(memory);
  }

 private:
  bool Skips() const { return skip_ != nullptr && *skip_ != 0; }

  static constexpr int kGarbage = 0xA5;

  const bool backwards_;
  const uint32_t* skip_ = nullptr;
  std::vector<std::unique_ptr<std::byte[]>> scratch_;
};

}  // namespace psgd::codec_test
