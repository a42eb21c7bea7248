// A codec's twin as a row of launches on a queue. The queue is a stream of a device, or the host's
// loops of the tests (tests/conformance/codec/host_queue.h):
//   queue.Launch(blocks, body)                 the body for each of so many blocks, if any
//   (block.h) queue.Select(count, flag, out, found)      the i below count where flag(i),
//   ascending; how many queue.Scan(count, of, out)                 out[i] = of(0) + ... + of(i -
//   1), uint32 queue.Zero(pointer, count) queue.template Scratch<T>(count)           not set; good
//   until the coder's Encode is over
//   queue.SkipIf(flag)     from now on bodies do nothing where *flag is not 0 when they run, flags
//   are false and terms 0; null: no more
// All work that is put on it runs in its order. No Abseil: nvcc reads this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.h"
#include "common/philox.h"
#include "compression/cuda/block.h"

namespace psgd::cuda {

// What a slice's payload is made of, in the order of the host's twin: weight decay, then what was
// left out before. Pointers are device memory.
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
  // Leaves it in the residual, if any, where Made finds it.
  PS_HD float Make(size_t i) const {
    const float corrected = Corrected(i);
    if (residual != nullptr) residual[i] = corrected;
    return corrected;
  }
  PS_HD float Made(size_t i) const { return residual == nullptr ? Gradient(i) : residual[i]; }
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
  uint64_t* bytes = nullptr;  // set only by coders that do not know them before
};

// Of one slice. Not thread-safe.
template <typename Queue>
class Coder {
 public:
  virtual ~Coder() = default;
  // Bytes of that step's payload, or what they will not exceed.
  virtual size_t Bound(uint64_t step) const = 0;
  // Which they exceed so seldom that it does not matter what that takes.
  virtual size_t Likely(uint64_t step) const { return Bound(step); }
  // Whether it sets `bytes`.
  virtual bool varies() const { return false; }
  virtual void Encode(Queue& queue, const CoderInput& input, const CoderOutput& output) = 0;
};

}  // namespace psgd::cuda
