#include "net/endpoint_base.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "net/transport_security.h"

namespace psgd {

std::optional<Message> EndpointBase::Decode(std::span<const Bytes> frames, absl::string_view pass) {
  absl::StatusOr<Message> message = DecodeMessage(frames, options_.max_message_bytes, integrity_);
  if (!message.ok()) {
    CountMalformed(message.status().message());
    return std::nullopt;
  }
  const uint32_t worker = message->header.worker(), incarnation = message->header.incarnation();
  const auto& security = options_.security;
  if (security && security->allowed && !security->allowed->Belongs(pass, worker, incarnation)) {
    ++stats_.impostors;
    stats_.last_turned_away =
        absl::StrCat("a message in the name of worker ", worker, ", incarnation ", incarnation,
                     ", from a connection that is not (or no longer) its own");
    return std::nullopt;
  }
  size_t bytes = 0;
  for (const Bytes& frame : frames) bytes += frame.size();
  CountReceived(bytes);
  return *std::move(message);
}

absl::Status EndpointBase::Gone(PeerId peer) { return UnavailableError("peer ", peer, " is gone"); }

absl::Status EndpointBase::Full(PeerId peer) {
  return ResourceExhaustedError("the queue of peer ", peer, " is full; send again later");
}

absl::Status EndpointBase::NotConnected(PeerId peer) {
  return InvalidArgumentError("no address ", peer, " was connected");
}

}  // namespace psgd
