#include "net/grpc/grpc_options.h"

#include <algorithm>
#include <climits>

#include "net/grpc/grpc_security.h"
#include "net/transport_security.h"

namespace psgd {
namespace {

// Large enough that a 4 MiB payload is not cut into hundreds of HTTP/2 frames and window updates.
constexpr int kFrameBytes = 1 << 20;
// What gRPC holds of a stream before it is read. By default gRPC sizes this window by its estimate
// of the link, which grows without bound while the reader is slow.
constexpr int kWindowBytes = 8 << 20;
// Servers must allow the pings that clients send.
constexpr int kPingsAllowedEveryMs = 10'000;
// Our connections carry only one stream.
constexpr int kMaxStreams = 4;

int MaxMessage(const TransportOptions& options) {
  return static_cast<int>(std::min<size_t>(options.max_message_bytes, INT_MAX));
}

template <typename SetInt>
void SetCommon(const SetInt& set) {
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kGrpcKeepaliveMs);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kGrpcKeepaliveTimeoutMs);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Only codecs compress payloads, and a few bytes of a hostile peer must not unpack into
  // gigabytes.
  set(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

}  // namespace

void ConfigureGrpcServer(const TransportOptions& options, grpc::ServerBuilder* builder) {
  SetCommon([&](const char* name, int value) { builder->AddChannelArgument(name, value); });
  builder->SetMaxReceiveMessageSize(MaxMessage(options));
  builder->SetMaxSendMessageSize(-1);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kGrpcHandshakeMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kGrpcIdleMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kPingsAllowedEveryMs);
  // With reuse, two servers may listen at one port, and each gets some of the connections.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

grpc::ChannelArguments GrpcChannelArguments(const TransportOptions& options) {
  grpc::ChannelArguments arguments;
  SetCommon([&](const char* name, int value) { arguments.SetInt(name, value); });
  arguments.SetMaxReceiveMessageSize(MaxMessage(options));
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // Each endpoint has its own connection, so endpoints share neither windows nor failures.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Ignore a proxy that the environment names.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.security && !options.security->server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.security->server_name);
  }
  return arguments;
}

}  // namespace psgd
