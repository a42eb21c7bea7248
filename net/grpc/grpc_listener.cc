// The listening side: a gRPC server with one method. Each call of the method is a peer.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/address.h"
#include "net/grpc/grpc_endpoint.h"
#include "net/grpc/grpc_endpoint_base.h"
#include "net/grpc/grpc_options.h"
#include "net/grpc/grpc_security.h"
#include "net/transport_security.h"

namespace psgd {
namespace {

// An accepted stream. GrpcShared::live keeps it alive until gRPC is done with it.
class ServerStream : public grpc::ServerGenericBidiReactor, public GrpcStream {
 public:
  using GrpcStream::GrpcStream;

  void OnReadDone(bool ok) override { ReadDone(ok); }
  void OnWriteDone(bool ok) override { WriteDone(ok); }
  void OnCancel() override { Cancelled(); }
  void OnDone() override { Done(); }

 protected:
  void StartReading(grpc::ByteBuffer* into) override { StartRead(into); }
  void StartWriting(const grpc::ByteBuffer* message) override { StartWrite(message); }
  bool IsAccepted() const override { return true; }
  void Release() override { Finish(grpc::Status::OK); }
};

// Refuses a call.
class RefusedCall : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusedCall(grpc::Status why) { Finish(std::move(why)); }
  void OnDone() override { delete this; }
};

class StreamService : public grpc::CallbackGenericService {
 public:
  explicit StreamService(std::shared_ptr<GrpcShared> shared) : shared_(std::move(shared)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    if (context->method() != kGrpcMethod) {
      return new RefusedCall({grpc::StatusCode::UNIMPLEMENTED,
                              absl::StrCat("this is a data port; it serves ", kGrpcMethod,
                                           " only; the control port is another")});
    }
    const auto& security = shared_->options.security;
    const std::string token = security ? GrpcToken(*context) : "";
    std::unique_lock lock(shared_->mutex);
    if (security && !security->allowed->Knows(token)) {
      ++shared_->strangers;
      shared_->changed.notify_one();
      return new RefusedCall({grpc::StatusCode::PERMISSION_DENIED,
                              "only members of the run may use its data ports: join it first"});
    }
    if (shared_->live.size() >= shared_->options.peers) {
      ++shared_->crowded_out;
      shared_->changed.notify_one();
      return new RefusedCall({grpc::StatusCode::RESOURCE_EXHAUSTED,
                              absl::StrCat("this data port has ", shared_->options.peers,
                                           " peers, and takes no more")});
    }
    if (shared_->closing) {
      return new RefusedCall({grpc::StatusCode::UNAVAILABLE, "shutting down"});
    }
    const PeerId peer = next_peer_++;
    auto stream =
        std::make_shared<ServerStream>(shared_, peer, std::make_shared<GrpcOutbox>(), token);
    shared_->live[peer] = stream;
    lock.unlock();
    // This establishes the client's call before we send a first message.
    stream->StartSendInitialMetadata();
    stream->Continue();
    return stream.get();
  }

 private:
  const std::shared_ptr<GrpcShared> shared_;
  PeerId next_peer_ = 0;  // guarded by shared_->mutex
};

class GrpcListener : public GrpcEndpointBase {
 public:
  explicit GrpcListener(const TransportOptions& options)
      : GrpcEndpointBase(options), service_(shared_) {}

  ~GrpcListener() override {
    if (server_ == nullptr) return;
    Close();
    const auto linger =
        std::chrono::duration_cast<std::chrono::system_clock::duration>(options_.linger);
    server_->Shutdown(std::chrono::system_clock::now() + linger);
    DestroyEnded();
  }

  absl::Status Listen(Address address) {
    // gRPC hides why it cannot listen, and prints to stderr.
    if (const int error = TryToListen(address); error != 0) return ListenError(address, error);
    grpc::ServerBuilder builder;
    ConfigureGrpcServer(options_, &builder);
    builder.RegisterCallbackGenericService(&service_);
    const auto& security = options_.security;
    builder.AddListeningPort(
        address.HostPort(), GrpcServerCredentials(security ? security->credentials.get() : nullptr),
        &address.port);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || address.port == 0) {
      return UnavailableError("gRPC cannot listen at ", address.ToString());
    }
    address_ = address.ToString();
    return absl::OkStatus();
  }

  absl::Status Send(PeerId to, const Message& message) override {
    std::shared_ptr<GrpcStream> stream;
    {
      std::lock_guard lock(shared_->mutex);
      auto it = shared_->live.find(to);
      if (it != shared_->live.end() && !it->second->ended()) stream = it->second;
    }
    if (stream == nullptr) return Gone(to);
    return SendOn(*stream, to, message);
  }

 private:
  StreamService service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

StatusOrEndpoint ListenGrpc(const std::string& address, const TransportOptions& options) {
  PSGD_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  if (parsed.scheme != Address::Scheme::kTcp) {
    return InvalidArgumentError("the gRPC transport listens at tcp://HOST:PORT, not at ", address);
  }
  auto endpoint = std::make_unique<GrpcListener>(options);
  PSGD_RETURN_IF_ERROR(endpoint->Listen(parsed));
  return endpoint;
}

}  // namespace psgd
