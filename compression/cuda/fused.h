// A launch for several slices: bodies of one type, each with blocks of its own (block.h). No
// Abseil: nvcc reads this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "compression/cuda/block.h"

namespace psgd::cuda {

// A body does nothing if *at is `mark`; null: it always runs.
struct SkipMark {
  const uint64_t* at = nullptr;
  uint64_t mark = 0;

  PS_HD bool Skips() const { return at != nullptr && *at == mark; }
};

// A slice's part of a launch.
struct Part {
  const void* body = nullptr;
  uint32_t blocks = 0;
  SkipMark skip;
};

// The bodies of a launch. A kernel takes them as its parameter.
template <typename Body>
class FusedBodies {
 public:
  // Returns false if there is no room for it.
  bool Add(const Part& part) {
    static_assert(sizeof(FusedBodies) <= kParameterBytes && std::is_trivially_copyable_v<Body>);
    if (count_ == kMost) return false;
    one_[count_] = {*static_cast<const Body*>(part.body), part.skip, blocks() + part.blocks};
    ++count_;
    return true;
  }

  // The blocks of all bodies.
  uint32_t blocks() const { return count_ == 0 ? 0 : one_[count_ - 1].end; }

  // Runs one of the blocks.
  PS_HD void Run(uint32_t block, typename Body::Shared& shared, bool backwards = false) const {
    uint32_t first = 0, last = count_ - 1;
    while (first < last) {
      const uint32_t middle = (first + last) / 2;
      if (block < one_[middle].end) {
        last = middle;
      } else {
        first = middle + 1;
      }
    }
    const One& one = one_[first];
    if (one.skip.Skips()) return;
    const uint32_t begin = first == 0 ? 0 : one_[first - 1].end;
    one.body(Block(block - begin, one.end - begin, backwards), shared);
  }

 private:
  struct One {
    Body body;
    SkipMark skip;
    uint32_t end;  // blocks of this body and of those before it
  };
  // Kernels may have 4,096 on any device. The rest is for other parameters.
  static constexpr size_t kParameterBytes = 4080;
  static constexpr uint32_t kMost = (kParameterBytes - 16) / sizeof(One);

  uint32_t count_ = 0;
  One one_[kMost];
};

// Calls launch(bodies) for all parts that have blocks, with as many bodies at once as possible.
template <typename Body, typename Parts, typename Launch>
void ForEachFused(const Parts& parts, Launch launch) {
  FusedBodies<Body> bodies;
  for (const Part& part : parts) {
    if (part.blocks == 0 || bodies.Add(part)) continue;
    launch(bodies);
    bodies = {};
    bodies.Add(part);
  }
  if (bodies.blocks() > 0) launch(bodies);
}

}  // namespace psgd::cuda
