#include "server/leader_link.h"

#include <grpcpp/create_channel.h>

#include "net/grpc/grpc_security.h"
#include "net/grpc/grpc_status.h"
#include "proto/replication.grpc.pb.h"

namespace psgd {
namespace {

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& server, const Credentials* credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy must not see the run
  arguments.SetMaxReceiveMessageSize(-1);           // an update is as large as it is
  // A channel of its own for each log: they must not wait for each other.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server, GrpcChannelCredentials(credentials), arguments);
}

}  // namespace

struct LeaderLink::Impl {
  std::shared_ptr<grpc::Channel> channel;
  bool connected = false;
  std::unique_ptr<Replication::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<FollowerSays, LogPart>> stream;
};

LeaderLink::LeaderLink(const std::string& leader, const Credentials* credentials, Duration patience,
                       const FollowerSays::Ask& ask)
    : impl_(std::make_unique<Impl>()) {
  impl_->channel = ChannelTo(leader, credentials);
  impl_->connected =
      impl_->channel->WaitForConnected(std::chrono::system_clock::now() + patience);
  // A leader that hangs would be waited for by gRPC, and for far longer.
  if (!impl_->connected) impl_->context.TryCancel();
  impl_->stub = Replication::NewStub(impl_->channel);
  impl_->stream = impl_->stub->Follow(&impl_->context);
  FollowerSays says;
  *says.mutable_ask() = ask;
  impl_->stream->Write(says);
}

LeaderLink::~LeaderLink() { Cancel(); }

bool LeaderLink::connected() const { return impl_->connected; }

bool LeaderLink::Read(LogPart* part) { return impl_->stream->Read(part); }

bool LeaderLink::Written(uint64_t number) {
  FollowerSays says;
  says.set_written(number);
  return impl_->stream->Write(says);
}

void LeaderLink::Cancel() { impl_->context.TryCancel(); }

absl::Status LeaderLink::Finish() { return ToAbsl(impl_->stream->Finish()); }

absl::StatusOr<Leadership> WhoLeads(const std::string& server, const Credentials* credentials,
                                    Duration patience) {
  const auto stub = Replication::NewStub(ChannelTo(server, credentials));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  Leadership leadership;
  const grpc::Status status = stub->WhoLeads(&context, WhoLeadsRequest(), &leadership);
  if (!status.ok()) return ToAbsl(status);
  return leadership;
}

}  // namespace psgd
