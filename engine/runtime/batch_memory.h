// A batch's memory on the device of a backend. Batches get there at once, or while the kernels of
// the previous batch run.
#pragma once

#include <memory>
#include <span>

#include "common/status.h"
#include "engine/runtime/backend.h"
#include "engine/runtime/crew.h"
#include "engine/runtime/network.h"

namespace psgd {

// Not thread-safe. The backend outlives it.
class BatchMemory {
 public:
  // In elements of four bytes. Only sparse samples have `values`, and only some have `targets`.
  struct Sizes {
    size_t input = 0, values = 0, labels = 0, targets = 0;
  };
  static absl::StatusOr<std::unique_ptr<BatchMemory>> Create(const Sizes& sizes, Backend* backend);

  // Addresses for kernels.
  void* input() const { return At(0); }
  void* values() const { return At(values_offset_); }
  void* labels() const { return At(labels_offset_); }
  void* targets() const { return At(targets_offset_); }

  // Kernels launched later see this batch. REQUIRES: the batch has the sizes of Create.
  absl::Status Upload(const StepBatch& batch);

  // Whether the next batch can be copied while kernels run.
  bool stages() const { return feed_ != nullptr; }
  // Starts the copy of a batch. The caller may change the batch once Stage returns.
  // REQUIRES: stages().
  absl::Status Stage(const StepBatch& batch);
  // Kernels launched later see the batch that was staged last, also if they saw it before.
  absl::Status TakeStaged() { return feed_->Take(memory_->data()); }

 private:
  BatchMemory(const Sizes& sizes, Backend* backend);
  // Copies to `host_`.
  void Write(size_t offset, std::span<const std::byte> bytes);
  void* At(size_t offset) const { return static_cast<char*>(memory_->data()) + offset; }

  Backend* const backend_;
  size_t values_offset_, labels_offset_, targets_offset_, end_;  // in bytes
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<DeviceMemory> host_;  // source of staged copies
  std::unique_ptr<Feed> feed_;          // null: kernels see the host's memory
  std::unique_ptr<Crew> crew_;          // null: one thread copies small batches
};

}  // namespace psgd
