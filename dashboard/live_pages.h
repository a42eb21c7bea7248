// The pages of a running server: the dashboard, its stream of records, its control row and
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
      credentials;                 // null: everyone who reaches the port may do everything
  std::vector<std::string> names;  // names of this server, in addition to its addresses
  std::string config;              // the run's config, as YAML
  std::string run_dir;
};

// Thread-safe.
class LivePages {
 public:
  // Opens the port, but clients wait until Serve. Shows the records of earlier parts of the run.
  static absl::StatusOr<std::unique_ptr<LivePages>> Listen(LivePagesOptions options);
  ~LivePages();

  // The observer for RunRecorder.
  void Observe(const Record& record);
  // REQUIRES: called once. `server` outlives this object, or Detach is called before the server
  // ends.
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
  // Runs on the HTTP server's thread.
  void Handle(const HttpRequest& request, const HttpReply& reply);
  absl::Status Check(const HttpRequest& request) const;
  void BeginStream(const HttpRequest& request, const HttpReply& reply);
  // Runs on its own thread, because the server may answer slowly.
  void AnswerCalls();
  HttpResponse Answer(const HttpRequest& request, ServerLoop& server) const;

  const LivePagesOptions options_;
  std::mutex history_mutex_;  // guards history_ and keeps records in order
  RunHistory history_;
  std::mutex server_mutex_;  // guards server_, also during calls to the server
  ServerLoop* server_ = nullptr;
  BoundedQueue<Call> calls_;
  std::unique_ptr<HttpServer> http_;
  std::thread thread_;
};

}  // namespace psgd
