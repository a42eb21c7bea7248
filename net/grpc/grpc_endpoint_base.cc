#include "net/grpc/grpc_endpoint_base.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "net/grpc/grpc_buffer.h"
#include "net/transport_security.h"

namespace psgd {
namespace {
// Enough for a few messages in flight through the shard.
constexpr size_t kPoolBytes = 64u << 20;
}  // namespace

GrpcEndpointBase::GrpcEndpointBase(const TransportOptions& options)
    : EndpointBase(options), shared_(std::make_shared<GrpcShared>(options)), pool_(kPoolBytes) {}

std::optional<Received> GrpcEndpointBase::Receive(Duration timeout) {
  // A bounded wait keeps the deadline within the clock's range.
  const Time deadline = SteadyNow() + std::min<Duration>(timeout, std::chrono::hours(24));
  while (true) {
    DestroyEnded();
    const Time until = std::min(deadline, Maintain());
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, until - SteadyNow(), [&] {
      return shared_->woken || !shared_->inbox.empty() || !shared_->ended.empty();
    });
    if (std::exchange(shared_->woken, false)) return std::nullopt;
    if (!shared_->inbox.empty()) {
      const GrpcShared::Parcel parcel = Take(std::move(lock));
      const Bytes whole = Contiguous(parcel.bytes, &pool_);
      std::optional<Message> message = Decode({&whole, 1}, *parcel.pass);
      if (!message) return std::nullopt;
      return Received{.from = parcel.from, .message = *std::move(message)};
    }
    lock.unlock();
    if (SteadyNow() >= deadline) return std::nullopt;
  }
}

absl::Status GrpcEndpointBase::SendOn(GrpcStream& stream, PeerId to, const Message& message) {
  // Before the checksum, which is the cost of a message that must be sent again later.
  if (!stream.HasRoom(message.PayloadBytes())) return Full(to);
  PSGD_ASSIGN_OR_RETURN(const EncodedMessage encoded, Encode(message));
  stream.Send(ShareFrames(encoded.frames));
  CountSent(encoded.size);
  return absl::OkStatus();
}

GrpcShared::Parcel GrpcEndpointBase::Take(std::unique_lock<std::mutex> lock) {
  GrpcShared::Parcel parcel = std::move(shared_->inbox.front());
  shared_->inbox.pop_front();
  shared_->inbox_bytes -= GrpcShared::SizeOf(parcel.bytes);
  std::map<uint64_t, std::shared_ptr<GrpcStream>> resumed;
  if (shared_->inbox_bytes < shared_->options.queue_bytes) resumed.swap(shared_->paused);
  lock.unlock();
  for (const auto& [turn, stream] : resumed) stream->Continue();
  return parcel;
}

EndpointStats GrpcEndpointBase::stats() const {
  EndpointStats stats = EndpointBase::stats();
  std::lock_guard lock(shared_->mutex);
  stats.strangers = shared_->strangers;
  stats.over_budget = shared_->crowded_out;
  if (stats.over_budget > 0) stats.last_turned_away = "there are as many peers as there may be";
  if (stats.strangers > 0 && stats.impostors == 0) {
    stats.last_turned_away = "it has no token of a member of the run";
  }
  return stats;
}

void GrpcEndpointBase::Wake() {
  std::lock_guard lock(shared_->mutex);
  shared_->woken = true;
  shared_->changed.notify_all();
}

void GrpcEndpointBase::DestroyEnded() {
  std::vector<std::shared_ptr<GrpcStream>> ended;
  std::lock_guard lock(shared_->mutex);
  ended.swap(shared_->ended);
}

void GrpcEndpointBase::Close() {
  std::unique_lock lock(shared_->mutex);
  shared_->closing = true;
  shared_->inbox.clear();
  shared_->inbox_bytes = 0;
  shared_->paused.clear();
  std::vector<std::shared_ptr<GrpcStream>> streams;
  for (const auto& [peer, stream] : shared_->live) streams.push_back(stream);
  lock.unlock();
  for (const auto& stream : streams) stream->Continue();
}

}  // namespace psgd
