// The leader's side of Follow, on the control port: an adapter to gRPC. Only included where gRPC
// is.
#pragma once

#include <atomic>

#include "proto/replication.grpc.pb.h"

namespace psgd {

class ParameterServer;

// Thread-safe.
class ReplicationService final : public Replication::Service {
 public:
  // Null: this server does not lead yet.
  explicit ReplicationService(const std::atomic<ParameterServer*>* server) : server_(server) {}

  grpc::Status Follow(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<LogPart, FollowerSays>* stream) override;
  grpc::Status WhoLeads(grpc::ServerContext* context, const WhoLeadsRequest* request,
                        Leadership* reply) override;

 private:
  const std::atomic<ParameterServer*>* const server_;
};

}  // namespace psgd
