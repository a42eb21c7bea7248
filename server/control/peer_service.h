// The calls that other servers keep open to this server: an adapter to gRPC. Only files that use
// gRPC include it.
#pragma once

#include <atomic>

#include "proto/peers.grpc.pb.h"
#include "server/control/call_guard.h"
#include "server/control/copy_set.h"
#include "server/control/peer_stream.h"

namespace psgd {

using ServingStream = PeerStream<LeaderSays, ServerSays>;

// Sends the pieces of an answer. CANCELLED: the caller went away.
template <typename Piece>
std::function<absl::Status(const Piece&)> SenderTo(grpc::ServerContext* context,
                                                   grpc::ServerWriter<Piece>* writer) {
  return [context, writer](const Piece& piece) -> absl::Status {
    if (!context->IsCancelled() && writer->Write(piece)) return absl::OkStatus();
    return absl::CancelledError("the reader went away");
  };
}

// Answers the calls. Each call returns when its stream has ended, or must end.
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
  // Without a handler, calls are answered with UNAVAILABLE. Null removes the handler.
  void SetHandler(PeerHandler* handler) { handler_ = handler; }

  grpc::Status Serve(grpc::ServerContext* context,
                     grpc::ServerReaderWriter<LeaderSays, ServerSays>* stream) override;
  grpc::Status Follow(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<LeadingSays, FollowingSays>* stream) override;
  grpc::Status ShardWeights(grpc::ServerContext* context, const ShardWeightsRequest* request,
                            grpc::ServerWriter<ShardWeightsChunk>* writer) override;

 private:
  // The handler of the call; or why there is none.
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
