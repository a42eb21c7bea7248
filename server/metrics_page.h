// GET /metrics: the server's state as Prometheus text. Only the .cc includes the HTTP library.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/status.h"
#include "proto/control.pb.h"

namespace psgd {

// The page for one state; a pure function, for tests.
std::string RenderPrometheus(const StatusReply& status);

// Thread-safe. Serves until destroyed.
class MetricsPage {
 public:
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Start(
      const std::string& host, int port, std::function<absl::StatusOr<StatusReply>()> status);
  ~MetricsPage();
  int port() const;

 private:
  struct Impl;
  explicit MetricsPage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
