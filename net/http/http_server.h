// A small HTTP/1.1 server. One thread serves all connections and never blocks on one, so a slow
// client does not delay others. Answers may come later and from any thread. The answer to an
// EventSource stays open and gets everything published after that.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "net/http/http_message.h"

namespace psgd {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                              // 0: any free port
  const Credentials* credentials = nullptr;  // if set: https, and clients must show a certificate
  size_t connections = 256;                  // further connections are closed
  size_t stream_bytes =
      size_t{64} << 20;  // waiting for one reader of a stream; a reader with more is disconnected
  Duration patience =
      Milliseconds(20000);  // for the rest of a request, and for a client that reads nothing
  Duration idle = Milliseconds(60000);  // how long a connection may stay open between requests
};

// Answers one request, once. Thread-safe. It may outlive the server; then calls do nothing.
class HttpReply {
 public:
  void Send(const HttpResponse& response) const;
  // Begins a stream of server-sent events with `first`: "event: NAME\ndata: LINE\n\n".
  void Stream(const std::string& first) const;

 private:
  friend class HttpServer;
  struct Mailbox;
  HttpReply(std::shared_ptr<Mailbox> mailbox, uint64_t connection, bool head)
      : mailbox_(std::move(mailbox)), connection_(connection), head_(head) {}

  std::shared_ptr<Mailbox> mailbox_;
  uint64_t connection_;
  bool head_;  // a HEAD request: the answer has no body
};

// Thread-safe. Serves until destroyed.
class HttpServer {
 public:
  // Called on the server's thread; must not block.
  using Handler = std::function<void(const HttpRequest& request, HttpReply reply)>;

  // Accepts connections from now on. Requests are answered once Serve is called.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(const HttpServerOptions& options);
  ~HttpServer();

  // REQUIRES: called once.
  void Serve(Handler handler);
  int port() const;
  // Sends `events` to every open stream.
  void Publish(const std::string& events);

 private:
  class Loop;
  explicit HttpServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

// Formats one server-sent event with one line of data.
std::string ServerSentEvent(absl::string_view name, absl::string_view data);

}  // namespace psgd
