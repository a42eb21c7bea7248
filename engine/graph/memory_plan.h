// Where every buffer of a step lies. Backends ask for buffers while they make kernels, node by
// node. Arrange then gives the same memory to buffers that are not alive together. A step allocates
// nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/graph/graph.h"

namespace psgd {

using BufferId = int;
inline constexpr BufferId kNoBuffer = -1;

// Addresses of all buffers, by id.
using Buffers = std::vector<void*>;

struct Buffer {
  enum class Kind {
    kTemporary,   // alive from its first use to its last
    kPersistent,  // keeps its content from step to step
    kExternal,    // memory of an external tensor, which the caller binds
  };
  Kind kind = Kind::kTemporary;
  size_t bytes = 0;
  int first = 0;  // node that uses it first
  int last = 0;   // node that uses it last
  size_t offset = 0;
  TensorId tensor = kNoTensor;  // the content; kNoTensor: scratch memory
};

// Not thread-safe.
class MemoryPlan {
 public:
  static constexpr size_t kAlignment = 256;  // of cudaMalloc; code for less is slower

  // The calls that follow are for this node.
  void BeginNode(int node) { node_ = node; }
  int node() const { return node_; }

  // Adds a temporary buffer that the present node uses.
  BufferId Add(size_t bytes, TensorId tensor = kNoTensor);
  BufferId AddPersistent(size_t bytes, TensorId tensor = kNoTensor);
  BufferId AddExternal(TensorId tensor, size_t bytes);
  // The present node uses the buffer, so the buffer lives at least until then.
  void Use(BufferId buffer);

  // Gives each temporary and persistent buffer its offset.
  void Arrange();

  const std::vector<Buffer>& buffers() const { return buffers_; }
  // The node at which the most bytes of temporary buffers are alive.
  int CrowdedNode() const;
  // REQUIRES: Arrange was called.
  size_t temporary_bytes() const { return temporary_bytes_; }
  size_t persistent_bytes() const { return persistent_bytes_; }

 private:
  std::vector<Buffer> buffers_;
  int node_ = 0;
  size_t temporary_bytes_ = 0;
  size_t persistent_bytes_ = 0;
};

}  // namespace psgd
