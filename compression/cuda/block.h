// The parts of kernels. A body is a functor that one block of threads runs in phases. On a device
// the threads run a phase together and meet at its end. On a host, where tests run the same bodies,
// one loop runs the threads in turn. So a body keeps state from phase to phase only in Shared, and
// must not depend on the order of the threads in a phase. Code between two phases may read Shared.
// The next phase must not store what it reads: one thread may already run that phase while another
// still reads. No Abseil: nvcc reads this.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "common/host_device.h"

namespace psgd::cuda {

inline constexpr uint32_t kThreads = 256;  // in a block

// The Shared of a body that shares nothing.
struct Nothing {};

class Block {
 public:
  // `count`: the blocks of this body. `backwards`, on a host: the last thread of each phase runs
  // first.
  PS_HD Block(uint32_t index, uint32_t count, bool backwards)
      : index_(index), count_(count), backwards_(backwards) {}
  // The index of this block among those of its body, and their number.
  PS_HD uint32_t index() const { return index_; }
  PS_HD uint32_t count() const { return count_; }
  // A phase: f(thread) for each thread of the block. All threads run every phase.
  template <typename F>
  PS_HD void Each(F f) const {
#ifdef __CUDA_ARCH__
    f(uint32_t{threadIdx.x});
    __syncthreads();
#else
    for (uint32_t t = 0; t < kThreads; ++t) f(backwards_ ? kThreads - 1 - t : t);
#endif
  }

  // A phase that one thread runs.
  template <typename F>
  PS_HD void Once(F f) const {
    Each([&](uint32_t thread) {
      if (thread == 0) f();
    });
  }

  // A phase: f(i) for each i below `count`, dealt to the block's threads.
  template <typename F>
  PS_HD void ForEach(size_t count, F f) const {
    Each([&](uint32_t thread) {
      for (size_t i = thread; i < count; i += kThreads) f(i);
    });
  }

  // A phase: put(w, bits) for each word of 32 bits. Bit k is bit(32 * w + k), 0 beyond `count`.
  template <typename Bit, typename Put>
  PS_HD void Bits(uint32_t count, Bit bit, Put put) const {
#ifdef __CUDA_ARCH__
    for (uint32_t i = threadIdx.x; i < (count + 31) / 32 * 32; i += kThreads) {
      const uint32_t bits = __ballot_sync(0xFFFFFFFFu, i < count && bit(i));
      if (i % 32 == 0) put(i / 32, bits);
    }
    __syncthreads();
#else
    const uint32_t words = (count + 31) / 32;
    for (uint32_t n = 0; n < words; ++n) {
      const uint32_t w = backwards_ ? words - 1 - n : n;
      uint32_t bits = 0;
      for (uint32_t k = 0; k < 32 && w * 32 + k < count; ++k)
        bits |= uint32_t{bit(w * 32 + k)} << k;
      put(w, bits);
    }
#endif
  }

  // A phase: f(i) for each i below `count`, dealt to all threads of the launch.
  template <typename F>
  PS_HD void ForAll(size_t count, F f) const {
    Each([&](uint32_t thread) {
      const size_t step = size_t{count_} * kThreads;
      for (size_t i = size_t{index_} * kThreads + thread; i < count; i += step) f(i);
    });
  }

  // A phase: f(begin, thread) for each thread and each `begin`, a multiple of `tile` below `count`.
  template <typename F>
  PS_HD void ForAllTiles(size_t count, size_t tile, F f) const {
    Each([&](uint32_t thread) {
      for (size_t i = index_ * tile; i < count; i += count_ * tile) f(i, thread);
    });
  }

 private:
  const uint32_t index_;
  const uint32_t count_;
  const bool backwards_ = false;
};

// Blocks for a ForAll of `count` items: a thread each, but no more than keep any device busy.
inline uint32_t BlocksFor(size_t count) {
  constexpr size_t kMost = 4096;
  const size_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<uint32_t>(blocks < kMost ? blocks : kMost);
}

// Atomic operations are for whole numbers only: their result does not depend on the order.
// Returns the number before.
PS_HD inline uint32_t AtomicAdd(uint32_t* at, uint32_t value) {
#ifdef __CUDA_ARCH__
  return atomicAdd(at, value);
#else
  const uint32_t before = *at;
  *at += value;
  return before;
#endif
}

PS_HD inline void AtomicMax(uint32_t* at, uint32_t value) {
#ifdef __CUDA_ARCH__
  atomicMax(at, value);
#else
  if (value > *at) *at = value;
#endif
}

PS_HD inline void AtomicOr(uint32_t* at, uint32_t bits) {
#ifdef __CUDA_ARCH__
  atomicOr(at, bits);
#else
  *at |= bits;
#endif
}

// Stores a number, other than 0, for blocks that wait for it with AwaitNumber. REQUIRES: *at is 0
// at first; a block waits only for blocks that have started, because a device may start the others
// only after the waiting block has ended. So blocks take parts of their work in the order in which
// they start, and wait only for parts before their own.
PS_HD inline void PublishNumber(uint32_t* at, uint32_t number) {
#ifdef __CUDA_ARCH__
  atomicExch(at, number);
#else
  *at = number;
#endif
}

PS_HD inline uint32_t AwaitNumber(const uint32_t* at) {
#ifdef __CUDA_ARCH__
  uint32_t number;
  do {
    number = *const_cast<const volatile uint32_t*>(at);
  } while (number == 0);
  return number;
#else
  // Blocks run one after the other: a block that has not started will not store the number.
  if (*at == 0) std::abort();
  return *at;
#endif
}

PS_HD inline uint32_t CountBits(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return static_cast<uint32_t>(__popc(bits));
#else
  return static_cast<uint32_t>(std::popcount(bits));
#endif
}

// A phase: ends one part of a launch. Returns true in the block that ends the last of `parts`
// parts: in later phases that block may read what all parts stored. `ended` counts the parts, and
// is 0 before the launch. `shared` is in shared memory.
PS_HD inline bool EndsLast(const Block& block, uint32_t parts, uint32_t* ended, uint32_t* shared) {
  block.Once([&] {
  // This block's stores come before the count. The reads of what others stored come after it.
#ifdef __CUDA_ARCH__
    __threadfence();
#endif
    *shared = AtomicAdd(ended, 1) + 1;
#ifdef __CUDA_ARCH__
    __threadfence();
#endif
  });
  return *shared == parts;
}

}  // namespace psgd::cuda
