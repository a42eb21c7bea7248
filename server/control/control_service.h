// What a server answers over gRPC: the control plane, and other servers. Thin adapters. Only the
// .cc includes gRPC.
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
  // Listens at host:port (port 0: any free one) until destroyed, to those whose certificates come
  // from the authority of `credentials`; null: to all. Who calls is told to come again, or to ask
  // another server, until there is one to serve.
  static absl::StatusOr<std::unique_ptr<ControlService>> Start(const std::string& host, int port,
                                                               const Credentials* credentials);
  ~ControlService();
  // `server` must outlive this. Null: nobody is served any more.
  void Serve(ServerLoop* server);
  int port() const;

 private:
  struct Impl;
  explicit ControlService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
