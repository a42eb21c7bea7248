#include "server/control/host_link.h"

#include "net/grpc/grpc_client_stream.h"
#include "proto/hosting.grpc.pb.h"

namespace psgd {

struct HostLink::Impl {
  GrpcClientStream<Hosting, HostSays, HostTold> stream;
};

HostLink::HostLink(const std::string& coordinator, const Credentials* credentials,
                   Duration patience, const HostSays::Hello& hello)
    : impl_(new Impl{{coordinator, credentials, patience, &Hosting::Stub::Host}}) {
  HostSays says;
  *says.mutable_hello() = hello;
  impl_->stream.Write(says);
}

HostLink::~HostLink() = default;

bool HostLink::connected() const { return impl_->stream.connected(); }
bool HostLink::Read(HostTold* told) { return impl_->stream.Read(told); }
bool HostLink::Write(const HostSays& says) { return impl_->stream.Write(says); }
void HostLink::Cancel() { impl_->stream.Cancel(); }
absl::Status HostLink::Finish() { return impl_->stream.Finish(); }

}  // namespace psgd
