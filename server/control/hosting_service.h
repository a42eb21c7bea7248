// The coordinator's side of Host, on the control port: an adapter to gRPC. Only included where gRPC
// is.
#pragma once

#include <atomic>

#include "proto/hosting.grpc.pb.h"

namespace psgd {

class ParameterServer;

// Thread-safe.
class HostingService final : public Hosting::Service {
 public:
  // Null: this server does not lead yet.
  explicit HostingService(const std::atomic<ParameterServer*>* server) : server_(server) {}

  grpc::Status Host(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<HostTold, HostSays>* stream) override;

 private:
  const std::atomic<ParameterServer*>* const server_;
};

}  // namespace psgd
