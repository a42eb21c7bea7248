#include "engine/runtime/batch_memory.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "engine/graph/memory_plan.h"

namespace psgd {
namespace {

size_t Bytes(size_t elements) {
  static_assert(sizeof(float) == sizeof(int32_t), "pixels and tokens take the same room");
  constexpr size_t kUnit = MemoryPlan::kAlignment;
  return (elements * sizeof(float) + kUnit - 1) / kUnit * kUnit;
}

// One thread copies a few gigabytes a second, so it needs longer for a large batch of images than a
// fast device for its step.
constexpr size_t kLarge = 16 << 20;
size_t CopyingThreads() { return std::clamp(std::thread::hardware_concurrency() / 4, 1u, 8u); }

std::span<const std::byte> InputOf(const NetworkInput& input) {
  return input.tokens.empty() ? std::as_bytes(input.pixels) : std::as_bytes(input.tokens);
}

}  // namespace

BatchMemory::BatchMemory(const Sizes& sizes, Backend* backend)
    : backend_(backend),
      values_offset_(Bytes(sizes.input)),
      labels_offset_(values_offset_ + Bytes(sizes.values)),
      targets_offset_(labels_offset_ + Bytes(sizes.labels)),
      end_(targets_offset_ + Bytes(sizes.targets)) {}

absl::StatusOr<std::unique_ptr<BatchMemory>> BatchMemory::Create(const Sizes& sizes,
                                                                 Backend* backend) {
  std::unique_ptr<BatchMemory> made(new BatchMemory(sizes, backend));
  PSGD_ASSIGN_OR_RETURN(made->memory_, backend->Allocate(made->end_));
  if (!backend->computes_on_host()) {
    PSGD_ASSIGN_OR_RETURN(made->host_, backend->AllocateHost(made->end_));
    PSGD_ASSIGN_OR_RETURN(made->feed_, backend->MakeFeed(made->end_));
    if (made->end_ >= kLarge) made->crew_ = std::make_unique<Crew>(CopyingThreads());
  }
  return made;
}

absl::Status BatchMemory::Upload(const StepBatch& batch) {
  const auto upload = [&](std::span<const std::byte> bytes, void* to) -> absl::Status {
    return bytes.empty() ? absl::OkStatus() : backend_->Upload(bytes.data(), to, bytes.size());
  };
  PSGD_RETURN_IF_ERROR(upload(InputOf(batch.input), input()));
  PSGD_RETURN_IF_ERROR(upload(std::as_bytes(batch.input.values), values()));
  PSGD_RETURN_IF_ERROR(upload(std::as_bytes(batch.targets), targets()));
  return upload(std::as_bytes(batch.labels), labels());
}

absl::Status BatchMemory::Stage(const StepBatch& batch) {
  PSGD_RETURN_IF_ERROR(feed_->AwaitLeft());
  Write(0, InputOf(batch.input));
  Write(values_offset_, std::as_bytes(batch.input.values));
  Write(labels_offset_, std::as_bytes(batch.labels));
  Write(targets_offset_, std::as_bytes(batch.targets));
  return feed_->Start(host_->data());
}

void BatchMemory::Write(size_t offset, std::span<const std::byte> bytes) {
  char* const to = static_cast<char*>(host_->data()) + offset;
  const auto copy = [&](size_t begin, size_t end) {
    if (begin < end) std::memcpy(to + begin, bytes.data() + begin, end - begin);
  };
  if (bytes.size() < kLarge) return copy(0, bytes.size());
  const size_t members = CopyingThreads();
  const size_t share = (bytes.size() + members - 1) / members;
  crew_->Run(
      [&](size_t member) { copy(member * share, std::min(bytes.size(), (member + 1) * share)); });
}

}  // namespace psgd
