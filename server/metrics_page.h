// GET /metrics: the server's state as Prometheus text. Only the .cc includes the HTTP library.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/status.h"
#include "net/credentials.h"
#include "proto/control.pb.h"
#include "server/call_guard.h"

namespace psgd {

// The page for one state; a pure function, for tests.
std::string RenderPrometheus(const StatusReply& status);

struct MetricsPageOptions {
  std::string host;
  int port = 0;  // 0: any free one
  std::function<absl::StatusOr<StatusReply>()> status;
  // With them the page is https, and for those alone whom the guard lets in by their certificates.
  const Credentials* credentials = nullptr;
  CallGuard* guard = nullptr;
};

// Thread-safe. Serves until destroyed.
class MetricsPage {
 public:
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Start(const MetricsPageOptions& options);
  ~MetricsPage();
  int port() const;

 private:
  struct Impl;
  explicit MetricsPage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
