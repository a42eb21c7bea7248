#include "server/replication_service.h"

#include "net/grpc/grpc_security.h"
#include "net/grpc/grpc_status.h"
#include "server/follower_stream.h"
#include "server/parameter_server.h"

namespace psgd {
namespace {

absl::Status CheckCaller(ParameterServer& server, const grpc::ServerContext& context,
                         absl::string_view call) {
  if (!server.guard().secured()) return absl::OkStatus();
  return server.guard().CheckRole(GrpcCallerRole(*context.auth_context()), call);
}

class Stream final : public FollowerStream {
 public:
  Stream(grpc::ServerContext* context, grpc::ServerReaderWriter<LogPart, FollowerSays>* stream)
      : context_(context), stream_(stream) {}
  bool Send(const LogPart& part) override { return stream_->Write(part); }
  bool Receive(FollowerSays* says) override { return stream_->Read(says); }
  bool gone() const override { return context_->IsCancelled(); }
  void End() override { context_->TryCancel(); }

 private:
  grpc::ServerContext* const context_;
  grpc::ServerReaderWriter<LogPart, FollowerSays>* const stream_;
};

}  // namespace

grpc::Status ReplicationService::Follow(grpc::ServerContext* context,
                                        grpc::ServerReaderWriter<LogPart, FollowerSays>* stream) {
  ParameterServer* const server = server_->load();
  if (server == nullptr) {
    return {grpc::StatusCode::UNAVAILABLE, "this server does not lead the run"};
  }
  const absl::Status allowed = CheckCaller(*server, *context, "Follow");
  if (!allowed.ok()) return ToGrpc(allowed);
  FollowerSays first;
  if (!stream->Read(&first)) return {grpc::StatusCode::INVALID_ARGUMENT, "nothing was asked for"};
  Stream adapter(context, stream);
  return ToGrpc(server->Follow(first.ask(), &adapter));
}

grpc::Status ReplicationService::WhoLeads(grpc::ServerContext* context, const WhoLeadsRequest*,
                                          Leadership* reply) {
  ParameterServer* const server = server_->load();
  if (server == nullptr) return grpc::Status::OK;
  const absl::Status allowed = CheckCaller(*server, *context, "WhoLeads");
  if (!allowed.ok()) return ToGrpc(allowed);
  reply->set_leads(true);
  *reply->mutable_chain() = server->chain();
  return grpc::Status::OK;
}

}  // namespace psgd
