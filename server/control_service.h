// The control plane over gRPC: one thin adapter. Only the .cc includes gRPC.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "net/credentials.h"

namespace psgd {

class ParameterServer;

// Thread-safe.
class ControlService {
 public:
  // Serves at host:port (port 0: any free one) until destroyed, to those whose certificates come
  // from the authority of `credentials`; null: to all. `server` must outlive it.
  static absl::StatusOr<std::unique_ptr<ControlService>> Start(const std::string& host, int port,
                                                               const Credentials* credentials,
                                                               ParameterServer* server);
  ~ControlService();
  int port() const;

 private:
  struct Impl;
  explicit ControlService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
