#include "worker/control_client.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "net/address.h"
#include "net/grpc/grpc_security.h"
#include "proto/control.grpc.pb.h"

namespace psgd {
namespace {

// A single attempt: a server that hangs is asked again.
constexpr auto kAttempt = std::chrono::seconds(20);
// The last attempt comes as time runs out; it still gets as far as an error that says something.
constexpr auto kLeastAttempt = std::chrono::milliseconds(200);
constexpr auto kFirstPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(1000);

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// Whether no TLS connection can come about, however long one tries: gRPC says so in words only.
bool HandshakeFailed(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "andshake failed") ||
         absl::StrContains(status.error_message(), "ertificate") ||
         absl::StrContains(status.error_message(), "ostname Verification");
}

}  // namespace

std::string ServerHost(const std::string& server) {
  return ParseAddress(absl::StrCat("tcp://", server))->host;
}

absl::Status CheckServerAddress(const std::string& server) {
  const auto address = ParseAddress(absl::StrCat("tcp://", server));
  if (address.ok() && address->port > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--server ", server, " is not HOST:PORT, as 127.0.0.1:7070"));
}

struct ControlClient::Impl {
  // Waits so long, but for a server that can be reached no longer than until it is. A channel makes
  // its connections only while somebody waits on it: one that sleeps would find them seconds later.
  void Pause(Duration pause) const {
    if (channel->GetState(true) == GRPC_CHANNEL_READY) {
      std::this_thread::sleep_for(pause);
    } else {
      channel->WaitForConnected(std::chrono::system_clock::now() + pause);
    }
  }

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<Control::Stub> stub;
  std::mutex mutex;  // guards what follows
  bool cancelled = false;
  std::string token;
  std::set<grpc::ClientContext*> under_way;
};

ControlClient::ControlClient(ControlClientOptions options)
    : options_(std::move(options)),
      deadline_(options_.deadline),
      impl_(std::make_unique<Impl>()) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy must not see the run
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  impl_->channel = grpc::CreateCustomChannel(
      options_.server, GrpcChannelCredentials(options_.credentials.get()), arguments);
  impl_->stub = Control::NewStub(impl_->channel);
}

ControlClient::~ControlClient() = default;

void ControlClient::Cancel() {
  std::lock_guard lock(impl_->mutex);
  impl_->cancelled = true;
  for (grpc::ClientContext* context : impl_->under_way) context->TryCancel();
}

void ControlClient::SetToken(const std::string& token) {
  std::lock_guard lock(impl_->mutex);
  impl_->token = token;
}

absl::Status ControlClient::NoAnswer(const std::string& why, Duration tried) const {
  return absl::UnavailableError(absl::StrCat(
      "no psgd server answers at ", options_.server, " (tried for ", std::lround(Seconds(tried)),
      " s: ", why,
      "); is ps-server running there, is the port right, and does a firewall let it through? ",
      options_.credentials ? "Does it know these certificates (is its ca.crt the same)?"
                           : "Does it ask for certificates (--tls-dir)?"));
}

template <typename Request, typename Reply, typename Method>
absl::StatusOr<Reply> ControlClient::Call(Method method, const Request& request) {
  const Time start = SteadyNow();
  auto pause = std::chrono::duration_cast<Duration>(kFirstPause);
  while (true) {
    grpc::ClientContext context;
    const Duration left = deadline_.load() - (SteadyNow() - start);
    context.set_deadline(std::chrono::system_clock::now() +
                         std::clamp<Duration>(left, kLeastAttempt, kAttempt));
    {
      std::lock_guard lock(impl_->mutex);
      if (impl_->cancelled) return absl::CancelledError("the call was given up");
      AddGrpcToken(impl_->token, &context);
      impl_->under_way.insert(&context);
    }
    Reply reply;
    const grpc::Status status = (impl_->stub.get()->*method)(&context, request, &reply);
    {
      std::lock_guard lock(impl_->mutex);
      impl_->under_way.erase(&context);
    }
    if (status.ok()) return reply;
    const bool again = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                       status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
    if (!again) return ToAbsl(status);
    if (options_.credentials && HandshakeFailed(status)) {
      return absl::UnauthenticatedError(absl::StrCat(
          "no secure connection to ", options_.server, ": ", status.error_message(),
          "; is it a secured ps-server, are both sides' certificates of one authority (ca.crt), and "
          "is the server's for this name (scripts/make-certs.sh DIR HOST ...)?"));
    }
    if (options_.interrupted) PSGD_RETURN_IF_ERROR(options_.interrupted());
    const Duration tried = SteadyNow() - start;
    if (tried >= deadline_.load()) return NoAnswer(status.error_message(), tried);
    impl_->Pause(std::min<Duration>(pause, deadline_.load() - tried));
    pause = std::min<Duration>(pause * 2, kLongestPause);
  }
}

absl::StatusOr<JoinReply> ControlClient::Join(const JoinRequest& request) {
  return Call<JoinRequest, JoinReply>(&Control::Stub::Join, request);
}
absl::StatusOr<RegisterReply> ControlClient::Register(const RegisterRequest& request) {
  return Call<RegisterRequest, RegisterReply>(&Control::Stub::Register, request);
}
absl::StatusOr<NextSegmentReply> ControlClient::NextSegment(const NextSegmentRequest& request) {
  return Call<NextSegmentRequest, NextSegmentReply>(&Control::Stub::NextSegment, request);
}
absl::StatusOr<EvaluatedReply> ControlClient::Evaluated(const EvaluatedRequest& request) {
  return Call<EvaluatedRequest, EvaluatedReply>(&Control::Stub::Evaluated, request);
}
absl::StatusOr<HeartbeatReply> ControlClient::Heartbeat(const HeartbeatRequest& request) {
  return Call<HeartbeatRequest, HeartbeatReply>(&Control::Stub::Heartbeat, request);
}
absl::StatusOr<LeaveReply> ControlClient::Leave(const LeaveRequest& request) {
  return Call<LeaveRequest, LeaveReply>(&Control::Stub::Leave, request);
}
absl::StatusOr<StatusReply> ControlClient::Status(const StatusRequest& request) {
  return Call<StatusRequest, StatusReply>(&Control::Stub::Status, request);
}
absl::StatusOr<CheckpointReply> ControlClient::Checkpoint(const CheckpointRequest& request) {
  return Call<CheckpointRequest, CheckpointReply>(&Control::Stub::Checkpoint, request);
}
absl::StatusOr<DrainReply> ControlClient::Drain(const DrainRequest& request) {
  return Call<DrainRequest, DrainReply>(&Control::Stub::Drain, request);
}
absl::StatusOr<SetHyperReply> ControlClient::SetHyper(const SetHyperRequest& request) {
  return Call<SetHyperRequest, SetHyperReply>(&Control::Stub::SetHyper, request);
}

absl::Status ControlClient::Weights(
    const std::function<absl::Status(const WeightsChunk&)>& chunk) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline_.load());
  auto reader = impl_->stub->Weights(&context, WeightsRequest());
  WeightsChunk message;
  absl::Status failed;
  while (failed.ok() && reader->Read(&message)) failed = chunk(message);
  if (!failed.ok()) {
    context.TryCancel();
    reader->Finish();
    return failed;
  }
  return Annotate(ToAbsl(reader->Finish()),
                  absl::StrCat("reading the weights from ", options_.server));
}

}  // namespace psgd
