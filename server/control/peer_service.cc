#include "server/control/peer_service.h"

#include "absl/strings/str_cat.h"
#include "net/grpc/grpc_security.h"
#include "net/grpc/grpc_status.h"
#include "server/control/copy_wire.h"

namespace psgd {
namespace {

template <typename Sent, typename Received>
class GrpcPeerStream final : public PeerStream<Sent, Received> {
 public:
  GrpcPeerStream(grpc::ServerContext* context, grpc::ServerReaderWriter<Sent, Received>* stream)
      : context_(context), stream_(stream) {}
  bool Send(const Sent& message) override { return stream_->Write(message); }
  bool Receive(Received* message) override { return stream_->Read(message); }
  void End() override { context_->TryCancel(); }

 private:
  grpc::ServerContext* const context_;
  grpc::ServerReaderWriter<Sent, Received>* const stream_;
};

}  // namespace

absl::StatusOr<PeerHandler*> PeerService::HandlerOf(const grpc::ServerContext& context,
                                                    absl::string_view call) {
  PeerHandler* const handler = handler_.load();
  if (handler == nullptr) return absl::UnavailableError("this server begins or ends");
  if (handler->guard().secured()) {
    PSGD_RETURN_IF_ERROR(handler->guard().CheckRole(GrpcCallerRole(*context.auth_context()), call));
  }
  return handler;
}

template <typename Sent, typename Received, typename Hello>
grpc::Status PeerService::Answer(grpc::ServerContext* context, absl::string_view call,
                                 grpc::ServerReaderWriter<Sent, Received>* stream,
                                 absl::Status (PeerHandler::*method)(const Hello&,
                                                                     PeerStream<Sent, Received>*)) {
  const auto handler = HandlerOf(*context, call);
  if (!handler.ok()) return ToGrpc(handler.status());
  Received first;
  if (!stream->Read(&first) || !first.has_hello()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "a server has to say who it is first"};
  }
  if (first.hello().protocol() != kPeerProtocol) {
    return {
        grpc::StatusCode::FAILED_PRECONDITION,
        absl::StrCat("the other server speaks protocol ", first.hello().protocol(), ", this one ",
                     kPeerProtocol, "; install the same version of psgd on both")};
  }
  GrpcPeerStream<Sent, Received> adapter(context, stream);
  return ToGrpc(((*handler)->*method)(first.hello(), &adapter));
}

grpc::Status PeerService::Serve(grpc::ServerContext* context,
                                grpc::ServerReaderWriter<LeaderSays, ServerSays>* stream) {
  return Answer(context, "Serve", stream, &PeerHandler::Serve);
}

grpc::Status PeerService::Follow(grpc::ServerContext* context,
                                 grpc::ServerReaderWriter<LeadingSays, FollowingSays>* stream) {
  return Answer(context, "Follow", stream, &PeerHandler::Follow);
}

grpc::Status PeerService::ShardWeights(grpc::ServerContext* context,
                                       const ShardWeightsRequest* request,
                                       grpc::ServerWriter<ShardWeightsChunk>* writer) {
  const auto handler = HandlerOf(*context, "ShardWeights");
  if (!handler.ok()) return ToGrpc(handler.status());
  return ToGrpc((*handler)->ShardWeights(*request, SenderTo(context, writer)));
}

}  // namespace psgd
