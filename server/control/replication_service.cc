#include "server/control/replication_service.h"

#include "net/grpc/grpc_status.h"
#include "server/control/grpc_server_stream.h"

namespace psgd {

grpc::Status ReplicationService::Follow(grpc::ServerContext* context,
                                        grpc::ServerReaderWriter<LogPart, FollowerSays>* stream) {
  const auto server = CalledServer(*server_, *context, "Follow");
  if (!server.ok()) return ToGrpc(server.status());
  FollowerSays first;
  if (!stream->Read(&first)) return {grpc::StatusCode::INVALID_ARGUMENT, "nothing was asked for"};
  GrpcFollowerStream adapter(context, stream);
  return ToGrpc((*server)->Follow(first.ask(), &adapter));
}

grpc::Status ReplicationService::WhoLeads(grpc::ServerContext* context, const WhoLeadsRequest*,
                                          Leadership* reply) {
  if (server_->load() == nullptr) return grpc::Status::OK;
  const auto server = CalledServer(*server_, *context, "WhoLeads");
  if (!server.ok()) return ToGrpc(server.status());
  reply->set_leads(true);
  *reply->mutable_chain() = (*server)->chain();
  return grpc::Status::OK;
}

}  // namespace psgd
