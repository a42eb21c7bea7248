#include "server/shard/gathered_pushes.h"

#include <algorithm>
#include <utility>

#include "common/bytes.h"
#include "net/wire_format.h"

namespace psgd {
namespace {

// This server made the bytes, so only the format's own limits count.
constexpr size_t kAnySize = size_t{1} << 40;

void SaveMessage(uint64_t clock, const Message& message, ShardRecord* record) {
  const auto encoded = EncodeMessage(message, kAnySize);
  if (!encoded.ok()) return;  // cannot fail: the message came in this format
  WaitingPush* const waiting = record->add_waiting();
  waiting->set_clock(clock);
  waiting->set_worker(message.header.worker());
  for (const Bytes& frame : encoded->frames) {
    waiting->mutable_message()->append(reinterpret_cast<const char*>(frame.data()), frame.size());
  }
}

void SavePush(uint64_t clock, const GatheredPayload& payload, ShardRecord* record) {
  Message alone;
  alone.header = payload.message->header;
  Push* const push = alone.header.mutable_push();
  push->clear_parts();
  const Push& whole = payload.message->header.push();
  const int first = payload.shared.first;
  for (int i = first; i < first + static_cast<int>(payload.shared.slices.size()); ++i) {
    *push->add_parts() = whole.parts(i);
  }
  alone.payloads.push_back(payload.message->payloads[payload.shared.payload]);
  SaveMessage(clock, alone, record);
}

}  // namespace

std::shared_ptr<const Message> GatheredPushes::Add(uint64_t clock, Message message,
                                                   std::vector<SharedPayload> payloads) {
  auto kept = std::make_shared<const Message>(std::move(message));
  const uint32_t worker = kept->header.worker();
  Clock& waiting = by_clock_[clock];
  for (SharedPayload& shared : payloads) Insert(waiting, {worker, kept, std::move(shared)});
  return kept;
}

void GatheredPushes::PutBack(uint64_t clock, GatheredPayload payload) {
  Insert(by_clock_[clock], std::move(payload));
}

void GatheredPushes::Insert(Clock& clock, GatheredPayload payload) {
  const std::vector<size_t>& slices = payload.shared.slices;
  if (slices.size() > 1) clock.shared.insert(slices.begin(), slices.end());
  std::vector<GatheredPayload>& slice = clock.slices[slices.front()];
  const auto after = std::ranges::upper_bound(slice, payload.worker, {}, &GatheredPayload::worker);
  bytes_ += slice.insert(after, std::move(payload))->bytes();
}

std::optional<uint64_t> GatheredPushes::Next(uint64_t clock) const {
  const auto next = by_clock_.upper_bound(clock);
  return next == by_clock_.end() ? std::nullopt : std::optional(next->first);
}

bool GatheredPushes::IsShared(uint64_t clock, size_t local) const {
  const auto of_clock = by_clock_.find(clock);
  return of_clock != by_clock_.end() && of_clock->second.shared.contains(local);
}

std::span<const GatheredPayload> GatheredPushes::Of(uint64_t clock, size_t local) const {
  const auto of_clock = by_clock_.find(clock);
  if (of_clock == by_clock_.end()) return {};
  const auto slice = of_clock->second.slices.find(local);
  if (slice == of_clock->second.slices.end()) return {};
  return slice->second;
}

std::vector<GatheredPayload> GatheredPushes::Take(uint64_t clock, size_t local) {
  const auto of_clock = by_clock_.find(clock);
  if (of_clock == by_clock_.end()) return {};
  auto slice = of_clock->second.slices.extract(local);
  if (slice.empty()) return {};
  for (const GatheredPayload& payload : slice.mapped()) bytes_ -= payload.bytes();
  return std::move(slice.mapped());
}

std::vector<GatheredPayload> GatheredPushes::TakeAll(uint64_t clock) {
  std::vector<GatheredPayload> taken;
  const auto of_clock = by_clock_.find(clock);
  if (of_clock == by_clock_.end()) return taken;
  for (auto& [local, slice] : of_clock->second.slices) {
    for (GatheredPayload& payload : slice) {
      bytes_ -= payload.bytes();
      taken.push_back(std::move(payload));
    }
  }
  by_clock_.erase(of_clock);
  std::ranges::stable_sort(taken, {}, &GatheredPayload::worker);
  return taken;
}

void GatheredPushes::Save(ShardRecord* record) const {
  for (const auto& [number, clock] : by_clock_) {
    for (const auto& [local, slice] : clock.slices) {
      for (const GatheredPayload& payload : slice) SavePush(number, payload, record);
    }
    if (!clock.slices.empty()) continue;
    Message empty;
    empty.header.mutable_push()->set_clock(number);
    SaveMessage(number, empty, record);
  }
}

absl::StatusOr<Message> MessageOf(const WaitingPush& waiting) {
  const std::string& text = waiting.message();
  const Bytes frame = Bytes::CopyOf(std::as_bytes(std::span<const char>(text.data(), text.size())));
  return DecodeMessage({&frame, 1}, kAnySize);
}

}  // namespace psgd
