#include "server/control/control_service.h"

#include <grpcpp/server_builder.h>

#include <atomic>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "net/address.h"
#include "net/grpc/grpc_security.h"
#include "net/grpc/grpc_status.h"
#include "proto/control.grpc.pb.h"
#include "server/control/peer_service.h"
#include "server/control/server_loop.h"

namespace psgd {
namespace {

// The largest request is a registration with a model of many parameters.
constexpr int kMaxMessage = 32 << 20;
// A worker has two calls under way at most, ps-run a few; each stream of a server is a connection.
constexpr int kMaxCallsAConnection = 16;

class Adapter final : public Control::Service {
 public:
  void Serve(ServerLoop* server) { server_ = server; }

#define PSGD_ANSWER(Call)                                                       \
  grpc::Status Call(grpc::ServerContext* context, const Call##Request* request, \
                    Call##Reply* reply) override {                              \
    return Answer(*context, #Call, *request, reply);                            \
  }
  PSGD_ANSWER(Join)
  PSGD_ANSWER(Register)
  PSGD_ANSWER(GiveWeights)
  PSGD_ANSWER(NextSegment)
  PSGD_ANSWER(Evaluated)
  PSGD_ANSWER(Heartbeat)
  PSGD_ANSWER(Leave)
  PSGD_ANSWER(Status)
  PSGD_ANSWER(Checkpoint)
  PSGD_ANSWER(Drain)
  PSGD_ANSWER(Rebalance)
  PSGD_ANSWER(SetHyper)
#undef PSGD_ANSWER

  grpc::Status Weights(grpc::ServerContext* context, const WeightsRequest*,
                       grpc::ServerWriter<WeightsChunk>* writer) override {
    ServerLoop* const server = server_.load();
    if (server == nullptr) return NotYet();
    const absl::Status allowed = server->guard().CheckRole(RoleOf(*server, *context), "Weights");
    if (!allowed.ok()) return ToGrpc(allowed);
    return ToGrpc(server->Weights(SenderTo(context, writer)));
  }

 private:
  static grpc::Status NotYet() {
    return {grpc::StatusCode::UNAVAILABLE, "this server begins or ends"};
  }

  static absl::StatusOr<Role> RoleOf(ServerLoop& server, const grpc::ServerContext& context) {
    if (!server.guard().secured()) return Role::kAdmin;
    return GrpcCallerRole(*context.auth_context());
  }

  template <typename Request>
  static absl::Status Check(ServerLoop& server, const grpc::ServerContext& context,
                            absl::string_view call, const Request& request) {
    const absl::StatusOr<Role> role = RoleOf(server, context);
    PSGD_RETURN_IF_ERROR(server.guard().CheckRole(role, call));
    if constexpr (requires { request.key(); }) {
      return server.guard().CheckMember(*role, request.key(), GrpcToken(context), call);
    }
    return absl::OkStatus();
  }

  template <typename Request>
  grpc::Status Answer(const grpc::ServerContext& context, absl::string_view call,
                      const Request& request, ReplyTo<Request>* reply) {
    ServerLoop* const server = server_.load();
    if (server == nullptr) return NotYet();
    // Only the run's leader knows the passes.
    if (!server->standing().now().leads && server->guard().secured()) {
      return {grpc::StatusCode::UNAVAILABLE, "this server does not lead the run (yet)"};
    }
    const absl::Status allowed = Check(*server, context, call, request);
    if (!allowed.ok()) return ToGrpc(allowed);
    // A dead process that asked to join must not take the place of its successor.
    if (context.IsCancelled()) return grpc::Status::CANCELLED;
    absl::StatusOr<ReplyTo<Request>> result = server->Call(request);
    if (!result.ok()) return ToGrpc(result.status());
    *reply = *std::move(result);
    return grpc::Status::OK;
  }

  std::atomic<ServerLoop*> server_ = nullptr;
};

// gRPC does not say why it cannot listen, and prints to stderr.
absl::Status CheckMayListen(const Address& address) {
  const int error = address.port == 0 ? 0 : TryToListen(address);
  if (error == 0) return absl::OkStatus();
  if (error != EADDRINUSE) return ListenError(address, error);
  return UnavailableError("port ", address.port, " of ", address.host,
                          " is taken, perhaps by another ps-server; take another for this one with "
                          "--port (0: any free one), or stop the other program");
}

}  // namespace

struct ControlService::Impl {
  Adapter control;
  PeerService peers;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

absl::StatusOr<std::unique_ptr<ControlService>> ControlService::Start(
    const std::string& host, int port, const Credentials* credentials) {
  const Address at{.host = host, .port = port, .name = {}};
  PSGD_RETURN_IF_ERROR(CheckMayListen(at));
  auto impl = std::make_unique<Impl>();
  const std::string address = at.HostPort();
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  // Two servers on one port would each get half of the workers.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kGrpcHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kGrpcIdleMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kGrpcKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kGrpcKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsAConnection);
  builder.AddListeningPort(address, GrpcServerCredentials(credentials), &impl->port);
  builder.RegisterService(&impl->control);
  builder.RegisterService(&impl->peers);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return UnavailableError("gRPC cannot listen on ", address, " for the control plane");
  }
  return std::unique_ptr<ControlService>(new ControlService(std::move(impl)));
}

ControlService::ControlService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ControlService::~ControlService() {
  // Calls that are still waiting (a checkpoint) get a moment to answer.
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  impl_->server->Wait();
}

void ControlService::Serve(ServerLoop* server) {
  impl_->control.Serve(server);
  impl_->peers.SetHandler(server);
}

int ControlService::port() const { return impl_->port; }

}  // namespace psgd
