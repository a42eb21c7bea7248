#include "worker/control_client.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/random_id.h"
#include "net/address.h"
#include "net/grpc/grpc_security.h"
#include "net/grpc/grpc_status.h"
#include "proto/control.grpc.pb.h"

namespace psgd {
namespace {

// A single attempt: a server that hangs is asked again.
constexpr auto kAttempt = std::chrono::seconds(20);
// The last attempt comes as time runs out; it still gets as far as an error that says something.
constexpr auto kLeastAttempt = std::chrono::milliseconds(200);
constexpr auto kFirstPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(1000);
// Where another server may have taken over, the one that hangs is soon left for it.
constexpr auto kAttemptOfSeveral = std::chrono::seconds(2);
constexpr auto kPauseOfSeveral = std::chrono::milliseconds(100);
// Nobody is told of a shorter wait.
constexpr Duration kSilentWait = std::chrono::milliseconds(1500);
constexpr Duration kFindPeriod = std::chrono::seconds(1);
// How often one that waits asks whether to go on waiting.
constexpr auto kInterruptPoll = std::chrono::milliseconds(100);

// Whether no TLS connection can come about, however long one tries: gRPC says so in words only.
bool HandshakeFailed(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "andshake failed") ||
         absl::StrContains(status.error_message(), "ertificate") ||
         absl::StrContains(status.error_message(), "ostname Verification");
}

// Waits for the one call on `queue`; `go_on`, asked now and then, may give it up.
absl::Status Await(grpc::CompletionQueue& queue, grpc::ClientContext& context,
                   const std::function<absl::Status()>& go_on) {
  absl::Status given_up;
  void* tag = nullptr;
  bool done = false;
  while (queue.AsyncNext(&tag, &done, std::chrono::system_clock::now() + kInterruptPoll) ==
         grpc::CompletionQueue::TIMEOUT) {
    if (!go_on || !given_up.ok()) continue;
    given_up = go_on();
    if (!given_up.ok()) context.TryCancel();
  }
  return given_up;
}

}  // namespace

std::string ServerHost(const std::string& server) {
  return ParseAddress(absl::StrCat("tcp://", server.substr(0, server.find(','))))->host;
}

absl::Status CheckServerAddress(const std::string& server) {
  for (const absl::string_view one : absl::StrSplit(server, ',')) {
    const auto address = ParseAddress(absl::StrCat("tcp://", one));
    if (address.ok() && address->port > 0) continue;
    return InvalidArgumentError("--server ", server, " is not HOST:PORT, as 127.0.0.1:7070");
  }
  return absl::OkStatus();
}

struct ControlClient::Impl {
  struct Server {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    std::shared_ptr<Control::Stub> stub;
  };

  // REQUIRES: mutex held.
  void Add(const std::string& address) {
    for (const Server& server : servers) {
      if (server.address == address) return;
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy must not see the run
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetMaxReceiveMessageSize(-1);  // a share lists every batch of an epoch
    Server& server = servers.emplace_back();
    server.address = address;
    server.channel = grpc::CreateCustomChannel(address, credentials, arguments);
    server.stub = Control::NewStub(server.channel);
  }
  // REQUIRES: mutex held.
  void Replace(const std::vector<std::string>& by) {
    if (by.empty()) return;
    const std::string now = servers[current].address;
    // Those that are no longer of the run are asked no more, but for the one that said so.
    std::erase_if(servers, [&](const Server& server) {
      return server.address != now && std::ranges::find(by, server.address) == by.end();
    });
    for (const std::string& server : by) Add(server);
    Choose(now);
  }
  // REQUIRES: mutex held; it is one of `servers`.
  void Choose(const std::string& address) {
    for (size_t i = 0; i < servers.size(); ++i) {
      if (servers[i].address == address) current = i;
    }
  }
  Server Current() {
    std::lock_guard lock(mutex);
    return servers[current];
  }
  bool several() {
    std::lock_guard lock(mutex);
    return servers.size() > 1;
  }
  std::string Addresses() {
    std::lock_guard lock(mutex);
    return absl::StrJoin(servers, " or ", [](std::string* out, const Server& server) {
      out->append(server.address);
    });
  }

  // For how long a call that began at `start` had no sign of life. The answer to another call is
  // one: a server that answers heartbeats and not this call waits itself, as for the run store.
  Duration Silence(Time start) {
    std::lock_guard lock(mutex);
    return SteadyNow() - std::max(start, answered);
  }

  // Waits so long, but for a server that can be reached no longer than until it is. A channel makes
  // its connections only while somebody waits on it: one that sleeps would find them seconds later.
  static void Pause(const Server& server, Duration pause) {
    if (server.channel->GetState(true) == GRPC_CHANNEL_READY) {
      std::this_thread::sleep_for(pause);
    } else {
      server.channel->WaitForConnected(std::chrono::system_clock::now() + pause);
    }
  }

  std::shared_ptr<grpc::ChannelCredentials> credentials;
  std::mutex mutex;  // guards what follows
  std::vector<Server> servers;
  size_t current = 0;
  Time next_find{};
  Time found_at{};           // when the last find that told of servers began
  std::string found_leader;  // which it said leads
  bool cancelled = false;
  std::string token;
  std::set<grpc::ClientContext*> under_way;
  bool knows_server = false;  // one answered
  Time answered{};            // when it last did
  bool told_wait = false;
};

ControlClient::ControlClient(ControlClientOptions options)
    : options_(std::move(options)), deadline_(options_.deadline), impl_(std::make_unique<Impl>()) {
  impl_->credentials = GrpcChannelCredentials(options_.credentials.get());
  for (const absl::string_view server : absl::StrSplit(options_.server, ',')) {
    impl_->Add(std::string(server));
  }
}

ControlClient::~ControlClient() = default;

void ControlClient::SetServers(const std::vector<std::string>& servers) {
  std::lock_guard lock(impl_->mutex);
  impl_->Replace(servers);
}

void ControlClient::AddServers(const std::vector<std::string>& servers) {
  std::lock_guard lock(impl_->mutex);
  for (const std::string& server : servers) impl_->Add(server);
}

std::string ControlClient::server() const { return impl_->Current().address; }

void ControlClient::TryAnotherThan(const std::string& server) {
  std::lock_guard lock(impl_->mutex);
  if (impl_->servers[impl_->current].address != server) return;  // another call found out as well
  impl_->current = (impl_->current + 1) % impl_->servers.size();
}

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
  return UnavailableError(
      "no psgd server answers at ", impl_->Addresses(), " (tried for ", std::lround(Seconds(tried)),
      " s: ", why,
      "); is ps-server running there, is the port right, and does a firewall let it through? ",
      options_.credentials ? "Does it know these certificates (is its ca.crt the same)?"
                           : "Does it ask for certificates (--tls-dir)?");
}

void ControlClient::TellWait(Duration tried) {
  if (!options_.on_wait || tried < kSilentWait) return;
  {
    std::lock_guard lock(impl_->mutex);
    if (impl_->knows_server || std::exchange(impl_->told_wait, true)) return;
  }
  options_.on_wait(absl::StrCat("no server answers at ", impl_->Addresses(), " yet; trying for ",
                                std::lround(Seconds(deadline_.load())),
                                " s (is ps-server running there, and is the port right?)"));
}

void ControlClient::FindServers() {
  if (!options_.find) return;
  {
    std::lock_guard lock(impl_->mutex);
    if (SteadyNow() < impl_->next_find) return;
    impl_->next_find = SteadyNow() + kFindPeriod;
  }
  const Time asked = SteadyNow();
  const auto servers = options_.find();
  if (!servers.ok() || servers->empty()) return;
  std::lock_guard lock(impl_->mutex);
  if (asked < impl_->found_at) return;  // another call knows better
  impl_->found_at = asked;
  impl_->Replace(*servers);
  // Another server leads: it is asked before all that may be as dead as the one before.
  const std::string& leader = servers->front();
  if (std::exchange(impl_->found_leader, leader) != leader) impl_->Choose(leader);
}

template <typename Request, typename Reply, typename Method>
absl::StatusOr<Reply> ControlClient::Call(Method method, const Request& request) {
  return Call<Request, Reply>(method, request, Limits());
}

template <typename Request, typename Reply, typename Method>
absl::StatusOr<Reply> ControlClient::Call(Method method, const Request& request,
                                          const Limits& limits) {
  const Time start = SteadyNow();
  auto pause = std::chrono::duration_cast<Duration>(kFirstPause);
  while (true) {
    grpc::ClientContext context;
    const bool several = impl_->several();
    const Duration left = deadline_.load() - impl_->Silence(start);
    Duration most = std::min<Duration>(
        limits.attempt, several && !limits.takes_time ? kAttemptOfSeveral : kAttempt);
    {
      std::lock_guard lock(impl_->mutex);
      if (impl_->cancelled) return absl::CancelledError("the call was given up");
      if (!impl_->told_wait && !impl_->knows_server && options_.on_wait) {
        most = std::min<Duration>(most, kSilentWait);
      }
      context.set_deadline(std::chrono::system_clock::now() +
                           std::max<Duration>(kLeastAttempt, std::min(left, most)));
      AddGrpcToken(impl_->token, &context);
      impl_->under_way.insert(&context);
    }
    const Impl::Server server = impl_->Current();
    Reply reply;
    grpc::Status status;
    grpc::CompletionQueue queue;
    const auto call = (server.stub.get()->*method)(&context, request, &queue);
    call->Finish(&reply, &status, nullptr);
    const absl::Status given_up =
        Await(queue, context, limits.may_be_given_up ? options_.interrupted : nullptr);
    {
      std::lock_guard lock(impl_->mutex);
      impl_->under_way.erase(&context);
      impl_->knows_server = impl_->knows_server || status.ok();
      if (status.ok()) impl_->answered = SteadyNow();
    }
    if (status.ok()) return reply;
    PSGD_RETURN_IF_ERROR(given_up);
    const bool again =
        status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
        // By a server that ends since another leads.
        ((several || options_.find) && status.error_code() == grpc::StatusCode::CANCELLED);
    if (!again) return ToAbsl(status);
    if (options_.credentials && HandshakeFailed(status)) {
      return absl::UnauthenticatedError(absl::StrCat(
          "no secure connection to ", server.address, ": ", status.error_message(),
          "; is it a secured ps-server, are both sides' certificates of one authority (ca.crt), "
          "and is the server's for this name (scripts/make-certs.sh DIR HOST ...)?"));
    }
    if (options_.interrupted) PSGD_RETURN_IF_ERROR(options_.interrupted());
    const Duration tried = impl_->Silence(start);
    if (tried >= deadline_.load()) return NoAnswer(status.error_message(), tried);
    TellWait(tried);
    FindServers();
    TryAnotherThan(server.address);
    Impl::Pause(impl_->Current(), std::min<Duration>(pause, deadline_.load() - tried));
    pause = std::min<Duration>(pause * 2, several ? kPauseOfSeveral : kLongestPause);
  }
}

absl::StatusOr<JoinReply> ControlClient::Join(const JoinRequest& request) {
  // One whose answer was lost, or that came too early, is the same when it is asked again.
  JoinRequest once = request;
  once.set_attempt(RandomId());
  return Call<JoinRequest, JoinReply>(&Control::Stub::AsyncJoin, once);
}
absl::StatusOr<RegisterReply> ControlClient::Register(const RegisterRequest& request) {
  // The first one installs the model.
  return Call<RegisterRequest, RegisterReply>(&Control::Stub::AsyncRegister, request,
                                              {.takes_time = true});
}
absl::StatusOr<GiveWeightsReply> ControlClient::GiveWeights(const GiveWeightsRequest& request) {
  return Call<GiveWeightsRequest, GiveWeightsReply>(&Control::Stub::AsyncGiveWeights, request);
}
absl::StatusOr<NextSegmentReply> ControlClient::NextSegment(const NextSegmentRequest& request) {
  return Call<NextSegmentRequest, NextSegmentReply>(&Control::Stub::AsyncNextSegment, request);
}
absl::StatusOr<EvaluatedReply> ControlClient::Evaluated(const EvaluatedRequest& request) {
  return Call<EvaluatedRequest, EvaluatedReply>(&Control::Stub::AsyncEvaluated, request);
}
absl::StatusOr<HeartbeatReply> ControlClient::Heartbeat(const HeartbeatRequest& request,
                                                        Duration attempt) {
  return Call<HeartbeatRequest, HeartbeatReply>(&Control::Stub::AsyncHeartbeat, request,
                                                {.attempt = attempt});
}
absl::StatusOr<LeaveReply> ControlClient::Leave(const LeaveRequest& request) {
  return Call<LeaveRequest, LeaveReply>(&Control::Stub::AsyncLeave, request,
                                        {.may_be_given_up = false});
}
absl::StatusOr<StatusReply> ControlClient::Status(const StatusRequest& request) {
  return Call<StatusRequest, StatusReply>(&Control::Stub::AsyncStatus, request);
}
absl::StatusOr<CheckpointReply> ControlClient::Checkpoint(const CheckpointRequest& request) {
  return Call<CheckpointRequest, CheckpointReply>(&Control::Stub::AsyncCheckpoint, request);
}
absl::StatusOr<DrainReply> ControlClient::Drain(const DrainRequest& request) {
  return Call<DrainRequest, DrainReply>(&Control::Stub::AsyncDrain, request);
}
absl::StatusOr<RebalanceReply> ControlClient::Rebalance(const RebalanceRequest& request) {
  return Call<RebalanceRequest, RebalanceReply>(&Control::Stub::AsyncRebalance, request);
}
absl::StatusOr<SetHyperReply> ControlClient::SetHyper(const SetHyperRequest& request) {
  return Call<SetHyperRequest, SetHyperReply>(&Control::Stub::AsyncSetHyper, request);
}

absl::Status ControlClient::Weights(const std::function<absl::Status(const WeightsChunk&)>& chunk) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline_.load());
  const Impl::Server server = impl_->Current();
  auto reader = server.stub->Weights(&context, WeightsRequest());
  WeightsChunk message;
  absl::Status failed;
  while (failed.ok() && reader->Read(&message)) failed = chunk(message);
  if (!failed.ok()) {
    context.TryCancel();
    reader->Finish();
    return failed;
  }
  return Annotate(ToAbsl(reader->Finish()),
                  absl::StrCat("reading the weights from ", server.address));
}

}  // namespace psgd
