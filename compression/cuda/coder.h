// A codec's twin as a series of launches on a queue. The queue is a stream of a device, or the host
// loops of the tests (tests/conformance/codec/host_queue.h):
//   queue.Launch(blocks, body)       runs the body for each block, if any (block.h)
//   queue.Select(count, flag, out, found)
//                                    lists each i below count with flag(i), ascending; their number
//   queue.Scan(count, of, out)       out[i] = of(0) + ... + of(i - 1), uint32
//   queue.Zero(pointer, count)
//   queue.template Scratch<T>(count) not initialized; valid until the coder's Encode ends
//   queue.SkipIf(flag)               if *flag is not 0 when later work runs, bodies do nothing,
//                                    flags are false and terms are 0; null ends this
// The queue runs all work in order. No Abseil: nvcc reads this.
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

struct MakeElement {
  Source source;
  PS_HD void operator()(size_t i) const { source.Make(i); }
};

struct CoderInput {
  Source source;
  float* state = nullptr;  // what the codec remembers beside the residual
  PhiloxKey key;
  uint64_t step = 0;
};

// Where payloads go. REQUIRES: `payload` is aligned to 8 bytes and has room for whole words.
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
  // Bytes that payloads exceed so seldom that the extra cost does not matter.
  virtual size_t Likely(uint64_t step) const { return Bound(step); }
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
