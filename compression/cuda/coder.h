// A codec's twin as a series of launches on a queue. The queue is a stream of a device, or the host
// loops of the tests (tests/conformance/codec/host_queue.h):
//   queue.Launch(blocks, body)       runs the body for each block, if any (block.h)
//   queue.Zero(pointer, count)       before the first launch of the slice
//   queue.template Scratch<T>(count) not initialized; of this slice alone, until its last launch
//   queue.SkipIf({at, mark})         if *at is `mark` when later launches run, their bodies do
//                                    nothing; {} ends this
// The queue runs the launches of a slice in order, with those of other slices. No Abseil: nvcc
// reads this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/host_device.h"
#include "common/philox.h"
#include "compression/cuda/block.h"
#include "compression/cuda/options.h"

namespace psgd::cuda {

// Neighbors that a thread moves at once.
struct alignas(16) Four {
  float at[4];
};

PS_HD inline bool IsAligned(const void* at, size_t bytes) {
  return reinterpret_cast<uintptr_t>(at) % bytes == 0;
}

// The count of a run that has all four elements, in aligned memory.
struct Whole {
  PS_HD constexpr operator uint32_t() const { return 4; }
};

// Stores the first `count` of the numbers in shared memory.
PS_HD inline void StoreShared(float* to, const Four& values, Whole) {
  *reinterpret_cast<Four*>(to) = values;
}
PS_HD inline void StoreShared(float* to, const Four& values, uint32_t count) {
  for (uint32_t k = 0; k < count; ++k) to[k] = values.at[k];
}

// The same in memory of the device. nvcc would make four stores of one.
PS_HD inline void StoreFour(float* to, const Four& values, Whole count) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "f"(values.at[0]), "f"(values.at[1]), "f"(values.at[2]), "f"(values.at[3])
               : "memory");
#else
  StoreShared(to, values, count);
#endif
}
PS_HD inline void StoreFour(float* to, const Four& values, uint32_t count) {
  StoreShared(to, values, count);
}

// Stores the first `count` bytes of `bytes`, the lowest first.
PS_HD inline void StoreBytes(std::byte* to, uint32_t bytes, Whole) {
  *reinterpret_cast<uint32_t*>(to) = bytes;
}
PS_HD inline void StoreBytes(std::byte* to, uint32_t bytes, uint32_t count) {
  if (count == 4 && IsAligned(to, 4)) return StoreBytes(to, bytes, Whole());
  for (uint32_t k = 0; k < count; ++k) to[k] = static_cast<std::byte>(bytes >> (8 * k) & 0xFF);
}

// The input of a slice's payload, added up in the order of the host's twin: weight decay, then the
// residual. Pointers are device memory.
struct Source {
  const float* gradient = nullptr;
  const float* weights = nullptr;  // null: no weight decay
  float weight_decay = 0;
  float* residual = nullptr;  // null: nothing is kept
  float residual_decay = 1;
  float scale = 1;  // of the gradient, where it is added to the residual

  PS_HD float Gradient(size_t i) const {
    return weights == nullptr ? gradient[i] : gradient[i] + weight_decay * weights[i];
  }
  // Gradient + residual.
  PS_HD float Corrected(size_t i) const {
    return residual == nullptr ? Gradient(i) : scale * Gradient(i) + residual_decay * residual[i];
  }
  // Whether CorrectedFours may read from element i on.
  PS_HD bool Aligned(size_t i) const {
    return IsAligned(gradient + i, sizeof(Four)) &&
           (weights == nullptr || IsAligned(weights + i, sizeof(Four))) &&
           (residual == nullptr || IsAligned(residual + i, sizeof(Four)));
  }
  // values[k] are the four elements from at[k] on.
  template <uint32_t kRuns>
  PS_HD void CorrectedFours(const size_t (&at)[kRuns], Four (&values)[kRuns]) const {
    Four more[kRuns] = {};
    for (uint32_t k = 0; k < kRuns; ++k) values[k] = FourAt(gradient + at[k]);
    if (residual != nullptr) {
      for (uint32_t k = 0; k < kRuns; ++k) more[k] = FourAt(residual + at[k]);
    }
    if (weights != nullptr) {
      for (uint32_t k = 0; k < kRuns; ++k) {
        const Four own = FourAt(weights + at[k]);
        for (uint32_t e = 0; e < 4; ++e) values[k].at[e] += weight_decay * own.at[e];
      }
    }
    if (residual == nullptr) return;
    for (uint32_t k = 0; k < kRuns; ++k) {
      for (uint32_t e = 0; e < 4; ++e) {
        values[k].at[e] = scale * values[k].at[e] + residual_decay * more[k].at[e];
      }
    }
  }
  // The source of what is made: Corrected(i) is Made(i).
  PS_HD Source AsMade() const {
    if (residual == nullptr) return *this;
    Source made;
    made.gradient = residual;
    return made;
  }
  // Corrected(i), once the residual has it.
  PS_HD float Made(size_t i) const { return residual == nullptr ? Gradient(i) : residual[i]; }

 private:
  PS_HD static const Four& FourAt(const float* at) { return *reinterpret_cast<const Four*>(at); }
};

// f(i, values, count) for runs of up to four elements below `end`, among the kMost that begin at
// `begin`. For a Whole count, element i of the source's arrays is aligned to 16 bytes. A block's
// threads share the runs. A thread reads all its numbers before it uses one, so that it waits for
// memory once.
template <uint32_t kMost, typename F>
PS_HD void ForRuns(const Source& source, size_t begin, size_t end, uint32_t thread, const F& f) {
  constexpr uint32_t kEach = kMost / 4 / kThreads;
  static_assert(kEach * 4 * kThreads == kMost);
  const auto own = static_cast<uint32_t>(end - begin < kMost ? end - begin : kMost);
  const uint32_t whole = source.Aligned(begin) ? own / 4 : 0;
  if (whole > 0) {
    size_t at[kEach];
    Four values[kEach];
    // A thread without work reads the first run.
    for (uint32_t k = 0; k < kEach; ++k) {
      const uint32_t run = k * kThreads + thread;
      at[k] = begin + (run < whole ? run * 4 : 0);
    }
    source.CorrectedFours(at, values);
#ifdef __CUDACC__
#pragma unroll  // else the numbers lie in memory
#endif
    for (uint32_t k = 0; k < kEach; ++k) {
      if (k * kThreads + thread < whole) f(at[k], values[k], Whole());
    }
  }
  for (uint32_t i = (whole + thread) * 4; i < own; i += kThreads * 4) {
    const uint32_t count = own - i < 4 ? own - i : 4;
    Four values = {};
    for (uint32_t k = 0; k < count; ++k) values.at[k] = source.Corrected(begin + i + k);
    f(begin + i, values, count);
  }
}

inline constexpr uint32_t kTile = 2048;  // elements that a block of threads takes at once

// A body for f(i, values, count) for runs of up to four elements: all of them, in tiles.
template <typename F>
struct MapBody {
  using Shared = Nothing;
  Source source;
  uint32_t count;
  F f;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.ForAllTiles(count, kTile, [&](size_t begin, uint32_t thread) {
      ForRuns<kTile>(source, begin, count, thread, f);
    });
  }
};

// The elements of the tile that begins at `begin`.
PS_HD inline uint32_t TileLength(size_t begin, size_t all) {
  return static_cast<uint32_t>(all - begin < kTile ? all - begin : kTile);
}
PS_HD inline uint32_t TilesOf(size_t count) {
  return static_cast<uint32_t>((count + kTile - 1) / kTile);
}

template <typename Queue, typename F>
void Map(Queue& queue, const Source& source, uint32_t count, const F& f) {
  queue.Launch(TilesOf(count), MapBody<F>{source, count, f});
}

// Stores the corrected numbers in the residual.
struct MakeElement {
  float* residual;
  template <typename Count>
  PS_HD void operator()(size_t i, const Four& values, Count count) const {
    StoreFour(residual + i, values, count);
  }
};

struct CoderInput {
  Source source;
  float* state = nullptr;  // what the codec remembers beside the residual
  PhiloxKey key;
  uint64_t step = 0;
};

// Where payloads go. REQUIRES: `payload` is aligned to 16 bytes and has room for whole words.
struct CoderOutput {
  std::byte* payload = nullptr;
  uint64_t* bytes = nullptr;  // set only by coders whose length varies
};

// Encodes one slice. Not thread-safe.
template <typename Queue>
class Coder {
 public:
  virtual ~Coder() = default;
  // Upper bound of the bytes of that step's payload.
  virtual size_t Bound(uint64_t step) const = 0;
  // Whether Encode sets `bytes`.
  virtual bool varies() const { return false; }
  virtual void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) = 0;
};

// The coder of the codec with those options. Specialized in the header of the codec's name.
template <typename Twin, typename Queue>
class CoderOf;

// In coders.h, which device_codecs.cc cannot include: it has kernels.
template <typename Queue>
std::unique_ptr<Coder<Queue>> MakeCoder(const TwinOptions& options);

}  // namespace psgd::cuda
