// Where a batch lies on the device of a backend, and how it gets there: at once, or beside the
// kernels of the batch before.
#pragma once

#include <memory>
#include <span>

#include "common/status.h"
#include "engine/runtime/backend.h"
#include "engine/runtime/network.h"

namespace psgd {

// Not thread-safe. The backend outlives it.
class BatchMemory {
 public:
  // Elements of four bytes each; `values`: of sparse samples.
  struct Sizes {
    size_t input = 0, values = 0, labels = 0;
  };
  static absl::StatusOr<std::unique_ptr<BatchMemory>> Create(const Sizes& sizes, Backend* backend);

  // What kernels see.
  void* input() const { return At(0); }
  void* values() const { return At(values_offset_); }
  void* labels() const { return At(labels_offset_); }

  // Kernels that are launched from now on see this batch. REQUIRES: it has the sizes.
  absl::Status Upload(const NetworkInput& input, std::span<const int32_t> labels);

  // Whether batches can come while kernels run, which are then those of the batch before.
  bool stages() const { return feed_ != nullptr; }
  // Begins to bring a batch, which may be written again once this has returned. REQUIRES: stages().
  absl::Status Stage(const NetworkInput& input, std::span<const int32_t> labels);
  // Kernels that are launched from now on see what was staged last.
  absl::Status TakeStaged() { return feed_->Take(memory_->data()); }

 private:
  BatchMemory(const Sizes& sizes, Backend* backend);
  void* At(size_t offset) const { return static_cast<char*>(memory_->data()) + offset; }

  Backend* const backend_;
  size_t values_offset_, labels_offset_, end_;  // in bytes
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<DeviceMemory> host_;  // that a batch is copied from
  std::unique_ptr<Feed> feed_;          // null: kernels see the host's memory
};

}  // namespace psgd
