#include "engine/graph/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace psgd {
namespace {

size_t RoundUp(size_t bytes) {
  return (bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment * MemoryPlan::kAlignment;
}

// A buffer with its place.
struct Placed {
  size_t offset, end;
  int first, last;
};

// The lowest gap of `size` bytes between buffers that are alive with `buffer`.
// REQUIRES: `placed` is sorted by offset.
size_t LowestGap(const std::vector<Placed>& placed, const Buffer& buffer, size_t size) {
  size_t offset = 0;
  for (const Placed& other : placed) {
    if (other.first > buffer.last || buffer.first > other.last) continue;
    if (offset + size <= other.offset) break;
    offset = std::max(offset, other.end);
  }
  return offset;
}

}  // namespace

BufferId MemoryPlan::Add(size_t bytes, TensorId tensor) {
  buffers_.push_back({.bytes = bytes, .first = node_, .last = node_, .tensor = tensor});
  return static_cast<BufferId>(buffers_.size()) - 1;
}

BufferId MemoryPlan::AddPersistent(size_t bytes, TensorId tensor) {
  const BufferId id = Add(bytes, tensor);
  buffers_[id].kind = Buffer::Kind::kPersistent;
  return id;
}

BufferId MemoryPlan::AddExternal(TensorId tensor, size_t bytes) {
  const BufferId id = Add(bytes, tensor);
  buffers_[id].kind = Buffer::Kind::kExternal;
  return id;
}

void MemoryPlan::Use(BufferId buffer) {
  buffers_[buffer].last = std::max(buffers_[buffer].last, node_);
}

int MemoryPlan::CrowdedNode() const {
  std::vector<int64_t> change(1);  // in bytes alive, by node
  for (const Buffer& buffer : buffers_) {
    if (buffer.kind != Buffer::Kind::kTemporary) continue;
    change.resize(std::max<size_t>(change.size(), buffer.last + 2));
    change[buffer.first] += static_cast<int64_t>(buffer.bytes);
    change[buffer.last + 1] -= static_cast<int64_t>(buffer.bytes);
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return static_cast<int>(std::max_element(change.begin(), change.end()) - change.begin());
}

// Greedy by size: the largest buffer is placed first. Each gets the lowest place that is free while
// it is alive (Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
// 2020).
void MemoryPlan::Arrange() {
  std::vector<Buffer*> largest_first;
  for (Buffer& buffer : buffers_) {
    if (buffer.kind == Buffer::Kind::kTemporary) largest_first.push_back(&buffer);
    if (buffer.kind == Buffer::Kind::kPersistent) {
      buffer.offset = persistent_bytes_;
      persistent_bytes_ += RoundUp(buffer.bytes);
    }
  }
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  // A plain array, for speed: networks have thousands of buffers, all compared with each other.
  std::vector<Placed> placed;
  placed.reserve(largest_first.size());
  for (Buffer* buffer : largest_first) {
    const size_t size = RoundUp(buffer->bytes);
    buffer->offset = LowestGap(placed, *buffer, size);
    const size_t end = buffer->offset + size;
    temporary_bytes_ = std::max(temporary_bytes_, end);
    const auto behind =
        std::upper_bound(placed.begin(), placed.end(), buffer->offset,
                         [](size_t offset, const Placed& other) { return offset < other.offset; });
    placed.insert(behind, {buffer->offset, end, buffer->first, buffer->last});
  }
}

}  // namespace psgd
