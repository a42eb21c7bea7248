#include "server/control/peer_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "net/grpc/grpc_security.h"
#include "net/grpc/grpc_status.h"
#include "proto/peers.grpc.pb.h"
#include "server/control/copy_wire.h"
#include "server/shard/shard_order.h"

namespace psgd {
namespace {

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& server,
                                         const Credentials* credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy must not see the run
  arguments.SetMaxReceiveMessageSize(-1);           // an update may have any size
  // Each channel has its own connection, so that streams do not wait for each other.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A server that does not connect again soon after its link broke is taken for dead.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  return grpc::CreateCustomChannel(server, GrpcChannelCredentials(credentials), arguments);
}

template <typename Sent, typename Received>
class GrpcCalledStream final : public CalledStream<Sent, Received> {
 public:
  using Stream = grpc::ClientReaderWriter<Sent, Received>;
  using Open = std::unique_ptr<Stream> (Peers::Stub::*)(grpc::ClientContext*);

  GrpcCalledStream(std::shared_ptr<grpc::Channel> channel, Open open)
      : stub_(Peers::NewStub(std::move(channel))), stream_((stub_.get()->*open)(&context_)) {}
  ~GrpcCalledStream() override { context_.TryCancel(); }

  bool Send(const Sent& message) override { return stream_->Write(message); }
  bool Receive(Received* message) override { return stream_->Read(message); }
  void End() override { context_.TryCancel(); }
  absl::Status WhyEnded() override { return ToAbsl(stream_->Finish()); }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<Peers::Stub> stub_;
  const std::unique_ptr<Stream> stream_;
};

template <typename Sent, typename Received>
absl::StatusOr<std::unique_ptr<CalledStream<Sent, Received>>> Call(
    const std::string& server, const Credentials* credentials, Duration patience,
    std::unique_ptr<grpc::ClientReaderWriter<Sent, Received>> (Peers::Stub::*open)(
        grpc::ClientContext*)) {
  auto channel = ChannelTo(server, credentials);
  // Without this, gRPC itself waits for a server that hangs, for far longer than `patience`.
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + patience)) {
    return UnavailableError("no answer from ", server);
  }
  return std::make_unique<GrpcCalledStream<Sent, Received>>(std::move(channel), open);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunStream>> CallRunLeader(const std::string& server,
                                                         const Credentials* credentials,
                                                         Duration patience) {
  return Call(server, credentials, patience, &Peers::Stub::Serve);
}

absl::StatusOr<std::unique_ptr<CopyStream>> CallLeadingCopy(const std::string& server,
                                                            const Credentials* credentials,
                                                            Duration patience) {
  return Call(server, credentials, patience, &Peers::Stub::Follow);
}

ServerSays HelloToRunLeader(const std::string& name) {
  ServerSays says;
  says.mutable_hello()->set_protocol(kPeerProtocol);
  says.mutable_hello()->set_name(name);
  return says;
}

FollowingSays HelloToLeadingCopy(const std::string& run_id, uint32_t server, uint32_t shard) {
  FollowingSays says;
  says.mutable_hello()->set_protocol(kPeerProtocol);
  says.mutable_hello()->set_server(server);
  says.mutable_hello()->set_shard(shard);
  says.mutable_hello()->set_run_id(run_id);
  return says;
}

ServerSays SaysOrderDone(uint32_t shard, const CopyCore::OrderDone& done) {
  ServerSays says;
  ServerSays::OrderDone& told = *says.mutable_order_done();
  told.set_shard(shard);
  told.set_epoch(done.epoch);
  told.set_number(done.number);
  told.set_code(static_cast<int>(done.status.code()));
  told.set_message(std::string(done.status.message()));
  return says;
}

ServerSays SaysQuarantined(const QuarantinedWorker& worker) {
  ServerSays says;
  *says.mutable_quarantined()->mutable_key() = worker.key;
  says.mutable_quarantined()->set_why(worker.why);
  says.mutable_quarantined()->set_not_finite(worker.not_finite);
  return says;
}

LeaderSays SaysOrder(const ShardOrderTo& order) {
  LeaderSays says;
  says.mutable_order()->set_shard(order.shard);
  says.mutable_order()->set_epoch(order.epoch);
  *says.mutable_order()->mutable_order() = ToOrder(order.number, order.command);
  return says;
}

LeaderSays SaysRefused(const absl::Status& why) {
  LeaderSays says;
  if (absl::IsUnavailable(why)) {
    says.set_leader(std::string(why.message()));
  } else {
    says.set_refused(std::string(why.message()));
  }
  return says;
}

absl::StatusOr<LeaderSays::Begin> AskForRun(const std::string& server,
                                            const Credentials* credentials, const std::string& name,
                                            Duration patience) {
  PSGD_ASSIGN_OR_RETURN(const auto stream, CallRunLeader(server, credentials, patience));
  LeaderSays says;
  if (!stream->Send(HelloToRunLeader(name)) || !stream->Receive(&says)) return stream->WhyEnded();
  if (says.has_begin()) return says.begin();
  return absl::InternalError(absl::StrCat(server, " does not say which run it has"));
}

absl::Status ReadShardWeights(
    const std::string& server, const Credentials* credentials, const ShardWeightsRequest& request,
    Duration deadline,
    const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take) {
  const auto stub = Peers::NewStub(ChannelTo(server, credentials));
  grpc::ClientContext context;
  // A server that is frozen, or whose machine is gone, must not be waited for without end.
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  const auto reader = stub->ShardWeights(&context, request);
  ShardWeightsChunk chunk;
  absl::Status failed;
  while (failed.ok() && reader->Read(&chunk)) {
    const std::string& values = chunk.values();
    failed = take(chunk.slice(), Bytes::Unowned(AsBytes(absl::string_view(values))));
  }
  if (!failed.ok()) context.TryCancel();
  const absl::Status ended = ToAbsl(reader->Finish());
  if (!failed.ok()) return failed;
  return Annotate(ended, absl::StrCat("reading shard ", request.shard(), " from ", server));
}

}  // namespace psgd
