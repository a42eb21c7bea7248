#include "server/control_service.h"

#include <grpcpp/server_builder.h>

#include "absl/strings/str_cat.h"
#include "proto/control.grpc.pb.h"
#include "server/parameter_server.h"

namespace psgd {
namespace {

// The largest request is a registration with a model of many parameters.
constexpr int kMaxMessage = 32 << 20;

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

template <typename Reply>
grpc::Status Answer(absl::StatusOr<Reply> result, Reply* reply) {
  if (!result.ok()) return ToGrpc(result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

class Adapter final : public Control::Service {
 public:
  explicit Adapter(ParameterServer* server) : server_(server) {}

  grpc::Status Join(grpc::ServerContext*, const JoinRequest* request, JoinReply* reply) override {
    return Answer(server_->Join(*request), reply);
  }
  grpc::Status Register(grpc::ServerContext*, const RegisterRequest* request,
                        RegisterReply* reply) override {
    return Answer(server_->Register(*request), reply);
  }
  grpc::Status NextSegment(grpc::ServerContext*, const NextSegmentRequest* request,
                           NextSegmentReply* reply) override {
    return Answer(server_->NextSegment(*request), reply);
  }
  grpc::Status Evaluated(grpc::ServerContext*, const EvaluatedRequest* request,
                         EvaluatedReply* reply) override {
    return Answer(server_->Evaluated(*request), reply);
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const HeartbeatRequest* request,
                         HeartbeatReply* reply) override {
    return Answer(server_->Heartbeat(*request), reply);
  }
  grpc::Status Leave(grpc::ServerContext*, const LeaveRequest* request,
                     LeaveReply* reply) override {
    return Answer(server_->Leave(*request), reply);
  }
  grpc::Status Status(grpc::ServerContext*, const StatusRequest* request,
                      StatusReply* reply) override {
    return Answer(server_->Status(*request), reply);
  }
  grpc::Status Checkpoint(grpc::ServerContext*, const CheckpointRequest* request,
                          CheckpointReply* reply) override {
    return Answer(server_->Checkpoint(*request), reply);
  }
  grpc::Status Drain(grpc::ServerContext*, const DrainRequest* request,
                     DrainReply* reply) override {
    return Answer(server_->Drain(*request), reply);
  }
  grpc::Status SetHyper(grpc::ServerContext*, const SetHyperRequest* request,
                        SetHyperReply* reply) override {
    return Answer(server_->SetHyper(*request), reply);
  }
  grpc::Status Weights(grpc::ServerContext* context, const WeightsRequest*,
                       grpc::ServerWriter<WeightsChunk>* writer) override {
    return ToGrpc(server_->Weights([&](const WeightsChunk& chunk) -> absl::Status {
      if (context->IsCancelled() || !writer->Write(chunk)) {
        return absl::CancelledError("the reader went away");
      }
      return absl::OkStatus();
    }));
  }

 private:
  ParameterServer* const server_;
};

}  // namespace

struct ControlService::Impl {
  explicit Impl(ParameterServer* server) : adapter(server) {}
  Adapter adapter;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

absl::StatusOr<std::unique_ptr<ControlService>> ControlService::Start(const std::string& host,
                                                                      int port,
                                                                      ParameterServer* server) {
  auto impl = std::make_unique<Impl>(server);
  const std::string address = absl::StrCat(host, ":", port);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  // Two servers on one port would each get half of the workers.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(&impl->adapter);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", address,
        " for the control plane; is another program (another ps-server?) using this port, and is "
        "the address one of this machine's? Choose another with --port, or stop the other one"));
  }
  return std::unique_ptr<ControlService>(new ControlService(std::move(impl)));
}

ControlService::ControlService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ControlService::~ControlService() {
  // Calls that are still waiting (a checkpoint) get a moment to answer.
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  impl_->server->Wait();
}

int ControlService::port() const { return impl_->port; }

}  // namespace psgd
