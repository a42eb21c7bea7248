#include "server/control/leader_link.h"

#include "net/grpc/grpc_client_stream.h"
#include "proto/replication.grpc.pb.h"

namespace psgd {

struct LeaderLink::Impl {
  GrpcClientStream<Replication, FollowerSays, LogPart> stream;
};

LeaderLink::LeaderLink(const std::string& leader, const Credentials* credentials, Duration patience,
                       const FollowerSays::Ask& ask)
    : impl_(new Impl{{leader, credentials, patience, &Replication::Stub::Follow}}) {
  FollowerSays says;
  *says.mutable_ask() = ask;
  impl_->stream.Write(says);
}

LeaderLink::~LeaderLink() = default;

bool LeaderLink::connected() const { return impl_->stream.connected(); }

bool LeaderLink::Read(LogPart* part) { return impl_->stream.Read(part); }

bool LeaderLink::Written(uint64_t number) {
  FollowerSays says;
  says.set_written(number);
  return impl_->stream.Write(says);
}

void LeaderLink::Cancel() { impl_->stream.Cancel(); }

absl::Status LeaderLink::Finish() { return impl_->stream.Finish(); }

absl::StatusOr<Leadership> WhoLeads(const std::string& server, const Credentials* credentials,
                                    Duration patience) {
  const auto stub = Replication::NewStub(GrpcChannelTo(server, credentials));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  Leadership leadership;
  const grpc::Status status = stub->WhoLeads(&context, WhoLeadsRequest(), &leadership);
  if (!status.ok()) return ToAbsl(status);
  return leadership;
}

}  // namespace psgd
