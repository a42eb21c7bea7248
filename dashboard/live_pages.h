// The pages of a running server: the dashboard, its stream of records, its control row, and
// /metrics.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/bounded_queue.h"
#include "common/log.h"
#include "dashboard/run_history.h"
#include "net/http/http_server.h"

namespace psgd {

class ServerLoop;

struct LivePagesOptions {
  HttpServerOptions http;
  std::shared_ptr<const Credentials>
      credentials;                 // null: everybody who reaches the port may everything
  std::vector<std::string> names;  // of this server, beside its addresses
  std::string config;              // the run's, as YAML
  std::string run_dir;
};

// Thread-safe.
class LivePages {
 public:
  // Takes the port; who connects waits until Serve. Shows what an earlier part of the run recorded.
  static absl::StatusOr<std::unique_ptr<LivePages>> Listen(LivePagesOptions options);
  ~LivePages();

  // For RunRecorder.
  void Observe(const Record& record);
  // REQUIRES: called once; `server` outlives this, or Detach comes before its end.
  void Serve(ServerLoop* server);
  void Detach();
  // HOST:PORT.
  std::string address() const;

 private:
  struct Call {
    HttpRequest request;
    HttpReply reply;
  };
  explicit LivePages(LivePagesOptions options);
  // On the HTTP server's thread.
  void Handle(const HttpRequest& request, const HttpReply& reply);
  absl::Status Check(const HttpRequest& request) const;
  void BeginStream(const HttpRequest& request, const HttpReply& reply);
  // On a thread of its own, since the server may take its time.
  void AnswerCalls();
  HttpResponse Answer(const HttpRequest& request, ServerLoop& server) const;

  const LivePagesOptions options_;
  std::mutex history_mutex_;  // guards history_; what is published keeps its order
  RunHistory history_;
  std::mutex server_mutex_;  // guards server_, also while it is asked
  ServerLoop* server_ = nullptr;
  BoundedQueue<Call> calls_;
  std::unique_ptr<HttpServer> http_;
  std::thread thread_;
};

}  // namespace psgd
