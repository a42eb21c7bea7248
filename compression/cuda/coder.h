// A codec's twin as a series of launches on a queue. The queue is a stream of a device, or the host
// loops of the tests (tests/conformance/codec/host_queue.h):
//   queue.Launch(blocks, body)       runs the body for each block, if any (block.h)
//   queue.Zero(pointer, count)       before the first launch of the slice
//   queue.template Scratch<T>(count) not initialized; of this slice alone, until its last launch
//   queue.SkipIf(flag)               if *flag is not 0 when later launches run, their bodies do
//                                    nothing; null ends this
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

// The input of a slice's payload, added up in the order of the host's twin: weight decay, then the
// residual. Pointers are device memory.
struct Source {
  const float* gradient = nullptr;
  const float* weights = nullptr;  // null: no weight decay
  float weight_decay = 0;
  float* residual = nullptr;  // null: nothing is kept
  float residual_decay = 1;

  PS_HD float Gradient(size_t i) const {
    return weights == nullptr ? gradient[i] : gradient[i] + weight_decay * weights[i];
  }
  // Gradient + residual.
  PS_HD float Corrected(size_t i) const {
    return residual == nullptr ? Gradient(i) : Gradient(i) + residual_decay * residual[i];
  }
  // Stores the sum in the residual, if there is one. Made reads it there.
  PS_HD float Make(size_t i) const {
    const float corrected = Corrected(i);
    if (residual != nullptr) residual[i] = corrected;
    return corrected;
  }
  PS_HD float Made(size_t i) const { return residual == nullptr ? Gradient(i) : residual[i]; }
};

// A body for f(i), for each i below `count`.
template <typename F>
struct ForAllBody {
  using Shared = Nothing;
  size_t count;
  F f;

  PS_HD void operator()(const Block& block, Shared&) const { block.ForAll(count, f); }
};

template <typename Queue, typename F>
void ForAll(Queue& queue, size_t count, const F& f) {
  queue.Launch(BlocksFor(count), ForAllBody<F>{count, f});
}

// A body for f.Write(i, f.Read(i)), for each i below `count`. A thread reads several numbers before
// it writes, so that it waits for memory once.
template <typename F>
struct MapBody {
  static constexpr size_t kAtOnce = 4, kTile = kAtOnce * kThreads;
  using Shared = Nothing;
  size_t count;
  F f;

  PS_HD void operator()(const Block& block, Shared&) const {
    block.ForAllTiles(count, kTile, [&](size_t begin, uint32_t thread) {
      const size_t first = begin + thread;
      float read[kAtOnce];
      if (begin + kTile <= count) {
        for (size_t k = 0; k < kAtOnce; ++k) read[k] = f.Read(first + k * kThreads);
        for (size_t k = 0; k < kAtOnce; ++k) f.Write(first + k * kThreads, read[k]);
      } else {
        for (size_t i = first; i < count; i += kThreads) f.Write(i, f.Read(i));
      }
    });
  }
};

template <typename Queue, typename F>
void Map(Queue& queue, size_t count, const F& f) {
  constexpr size_t kAtOnce = MapBody<F>::kAtOnce;
  queue.Launch(BlocksFor((count + kAtOnce - 1) / kAtOnce), MapBody<F>{count, f});
}

struct MakeElement {
  Source source;
  PS_HD float Read(size_t i) const { return source.Corrected(i); }
  PS_HD void Write(size_t i, float corrected) const { source.residual[i] = corrected; }
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
