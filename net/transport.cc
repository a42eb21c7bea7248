#include "net/transport.h"

#include "net/auto/auto_endpoint.h"
#include "net/grpc/grpc_endpoint.h"
#include "net/ipc/ipc_endpoint.h"
#include "net/ucx/ucx_endpoint.h"
#include "net/zmq/zmq_endpoint.h"

namespace psgd {
namespace {

using ListenFunction = StatusOrEndpoint (*)(const std::string&, const TransportOptions&);
using ConnectFunction = StatusOrEndpoint (*)(const std::vector<std::string>&,
                                             const TransportOptions&);

// A transport of two functions: its endpoints share nothing.
class SocketTransport : public Transport {
 public:
  SocketTransport(ListenFunction listen, ConnectFunction connect, const TransportOptions& options)
      : listen_(listen), connect_(connect), options_(options) {}

  StatusOrEndpoint Listen(const std::string& address) override {
    return listen_(address, options_);
  }
  StatusOrEndpoint Connect(const std::vector<std::string>& addresses) override {
    return connect_(addresses, options_);
  }

 private:
  const ListenFunction listen_;
  const ConnectFunction connect_;
  const TransportOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(ClusterConfig::Transport kind,
                                                         const TransportOptions& options) {
  switch (kind) {
    case ClusterConfig::AUTO:
      return MakeAutoTransport(options);
    case ClusterConfig::ZMQ:
      return std::make_unique<SocketTransport>(ListenZmq, ConnectZmq, options);
    case ClusterConfig::IPC:
      return std::make_unique<SocketTransport>(ListenIpc, ConnectIpc, options);
    case ClusterConfig::GRPC:
      return std::make_unique<SocketTransport>(ListenGrpc, ConnectGrpc, options);
    case ClusterConfig::UCX:
      PSGD_RETURN_IF_ERROR(CheckUcxOptions(options));
      return std::make_unique<SocketTransport>(ListenUcx, ConnectUcx, options);
  }
  return absl::InvalidArgumentError("no such transport; choose auto, zmq, ipc, grpc or ucx");
}

}  // namespace psgd
