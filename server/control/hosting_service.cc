#include "server/control/hosting_service.h"

#include "net/grpc/grpc_status.h"
#include "server/control/grpc_server_stream.h"
#include "server/control/host_stream.h"

namespace psgd {

grpc::Status HostingService::Host(grpc::ServerContext* context,
                                  grpc::ServerReaderWriter<HostTold, HostSays>* stream) {
  const auto server = CalledServer(*server_, *context, "Host");
  if (!server.ok()) return ToGrpc(server.status());
  HostSays first;
  if (!stream->Read(&first) || !first.has_hello()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "a server has to say who it is first"};
  }
  GrpcServerStream<HostStream, HostTold, HostSays> adapter(context, stream);
  return ToGrpc((*server)->Host(first.hello(), &adapter));
}

}  // namespace psgd
