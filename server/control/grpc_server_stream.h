// The side of a server that leads, of calls that other servers keep open: adapters to gRPC. Only
// included where gRPC is.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "net/grpc/grpc_security.h"
#include "server/control/follower_stream.h"
#include "server/control/parameter_server.h"

namespace psgd {

// Stream is FollowerStream or HostStream.
template <typename Stream, typename Sent, typename Received>
class GrpcServerStream : public Stream {
 public:
  using ReaderWriter = grpc::ServerReaderWriter<Sent, Received>;

  GrpcServerStream(grpc::ServerContext* context, ReaderWriter* stream)
      : context_(context), stream_(stream) {}
  bool Send(const Sent& sent) override { return stream_->Write(sent); }
  bool Receive(Received* received) override { return stream_->Read(received); }
  void End() override { context_->TryCancel(); }

 protected:
  grpc::ServerContext* const context_;

 private:
  ReaderWriter* const stream_;
};

class GrpcFollowerStream final : public GrpcServerStream<FollowerStream, LogPart, FollowerSays> {
 public:
  using GrpcServerStream::GrpcServerStream;
  bool gone() const override { return context_->IsCancelled(); }
};

// The server that is called, if it leads and the caller may. UNAVAILABLE: it does not lead (yet).
inline absl::StatusOr<ParameterServer*> CalledServer(const std::atomic<ParameterServer*>& server,
                                                     const grpc::ServerContext& context,
                                                     absl::string_view call) {
  ParameterServer* const leading = server.load();
  if (leading == nullptr) return absl::UnavailableError("this server does not lead the run (yet)");
  if (leading->guard().secured()) {
    PSGD_RETURN_IF_ERROR(leading->guard().CheckRole(GrpcCallerRole(*context.auth_context()), call));
  }
  return leading;
}

}  // namespace psgd
