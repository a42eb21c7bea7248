#include "server/hosting_service.h"

#include "net/grpc/grpc_security.h"
#include "net/grpc/grpc_status.h"
#include "server/host_stream.h"
#include "server/parameter_server.h"

namespace psgd {
namespace {

class Stream final : public HostStream {
 public:
  Stream(grpc::ServerContext* context, grpc::ServerReaderWriter<HostTold, HostSays>* stream)
      : context_(context), stream_(stream) {}
  bool Send(const HostTold& told) override { return stream_->Write(told); }
  bool Receive(HostSays* says) override { return stream_->Read(says); }
  void End() override { context_->TryCancel(); }

 private:
  grpc::ServerContext* const context_;
  grpc::ServerReaderWriter<HostTold, HostSays>* const stream_;
};

}  // namespace

grpc::Status HostingService::Host(grpc::ServerContext* context,
                                  grpc::ServerReaderWriter<HostTold, HostSays>* stream) {
  ParameterServer* const server = server_->load();
  if (server == nullptr) {
    return {grpc::StatusCode::UNAVAILABLE, "this server does not lead the run"};
  }
  if (server->guard().secured()) {
    const absl::Status allowed =
        server->guard().CheckRole(GrpcCallerRole(*context->auth_context()), "Host");
    if (!allowed.ok()) return ToGrpc(allowed);
  }
  HostSays first;
  if (!stream->Read(&first) || !first.has_hello()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "a server has to say who it is first"};
  }
  Stream adapter(context, stream);
  return ToGrpc(server->Host(first.hello(), &adapter));
}

}  // namespace psgd
