// One allocation of device memory for several uses.
#pragma once

#include <cstddef>
#include <memory>

#include "common/status.h"
#include "engine/graph/memory_plan.h"
#include "engine/runtime/backend.h"

namespace psgd {

// Aligned pieces of one allocation: first Add all pieces, then Allocate. Not thread-safe.
class Region {
 public:
  // Returns the offset of a new piece.
  size_t Add(size_t bytes) {
    const size_t offset = bytes_;
    bytes_ +=
        (bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment * MemoryPlan::kAlignment;
    return offset;
  }
  absl::Status Allocate(Backend* backend) {
    PSGD_ASSIGN_OR_RETURN(memory_, backend->Allocate(bytes_));
    return absl::OkStatus();
  }
  void* at(size_t offset) const { return static_cast<char*>(memory_->data()) + offset; }

 private:
  size_t bytes_ = 0;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace psgd
