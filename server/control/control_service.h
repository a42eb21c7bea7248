// Answers gRPC calls of the control plane and of other servers, by thin adapters. Only the .cc
// includes gRPC.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "net/credentials.h"

namespace psgd {

class ServerLoop;

// Thread-safe.
class ControlService {
 public:
  // Listens at host:port (port 0: any free port) until destroyed. It serves callers whose
  // certificates come from the authority of `credentials`; null: all callers. Until Serve, callers
  // are told to try again or to ask another server.
  static absl::StatusOr<std::unique_ptr<ControlService>> Start(const std::string& host, int port,
                                                               const Credentials* credentials);
  ~ControlService();
  // `server` must outlive this object. Null: nobody is served any more.
  void Serve(ServerLoop* server);
  int port() const;

 private:
  struct Impl;
  explicit ControlService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
