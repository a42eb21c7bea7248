// The calls that other servers keep open to this one: an adapter to gRPC. Only included where gRPC
// is.
#pragma once

#include <atomic>

#include "proto/peers.grpc.pb.h"
#include "server/control/call_guard.h"
#include "server/control/copy_set.h"
#include "server/control/peer_stream.h"

namespace psgd {

using ServingStream = PeerStream<LeaderSays, ServerSays>;

// What answers the calls. Each returns when the stream has ended, or has to.
class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  virtual CallGuard& guard() = 0;
  virtual absl::Status Serve(const ServerSays::Hello& hello, ServingStream* stream) = 0;
  virtual absl::Status Follow(const FollowingSays::Hello& hello, FollowingStream* stream) = 0;
  virtual absl::Status ShardWeights(
      const ShardWeightsRequest& request,
      const std::function<absl::Status(const ShardWeightsChunk&)>& send) = 0;
};

// Thread-safe.
class PeerService final : public Peers::Service {
 public:
  // Answers with UNAVAILABLE before this, and after it was called with null.
  void SetHandler(PeerHandler* handler) { handler_ = handler; }

  grpc::Status Serve(grpc::ServerContext* context,
                     grpc::ServerReaderWriter<LeaderSays, ServerSays>* stream) override;
  grpc::Status Follow(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<LeadingSays, FollowingSays>* stream) override;
  grpc::Status ShardWeights(grpc::ServerContext* context, const ShardWeightsRequest* request,
                            grpc::ServerWriter<ShardWeightsChunk>* writer) override;

 private:
  // What answers that call; or why nothing does.
  absl::StatusOr<PeerHandler*> HandlerOf(const grpc::ServerContext& context,
                                         absl::string_view call);
  template <typename Sent, typename Received, typename Hello>
  grpc::Status Answer(grpc::ServerContext* context, absl::string_view call,
                      grpc::ServerReaderWriter<Sent, Received>* stream,
                      absl::Status (PeerHandler::*method)(const Hello&,
                                                          PeerStream<Sent, Received>*));

  std::atomic<PeerHandler*> handler_ = nullptr;
};

}  // namespace psgd
