// A small HTTP/1.1 server: one thread serves all connections and waits for none of them, so that
// whoever sends or reads slowly is in nobody's way. Answers may come later and from any thread; one
// to an EventSource stays open, and gets what is published from then on.
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
  int port = 0;  // 0: any free one
  const Credentials* credentials =
      nullptr;               // with them: https, and only for who shows a certificate
  size_t connections = 256;  // more are hung up on
  size_t stream_bytes = size_t{64}
                        << 20;  // that wait for one reader of a stream: more, and it is let go
  Duration patience = Milliseconds(20000);  // for the rest of a request, and for who takes nothing
  Duration idle = Milliseconds(60000);      // between requests
};

// Answers one request, once. Thread-safe; may outlive the server, and then does nothing.
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
  bool head_;  // the answer goes without its body
};

// Thread-safe. Serves until destroyed.
class HttpServer {
 public:
  // Called on the server's thread: must not wait.
  using Handler = std::function<void(const HttpRequest& request, HttpReply reply)>;

  // From now on connections are taken, and answered once Serve is called.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(const HttpServerOptions& options);
  ~HttpServer();

  // REQUIRES: called once.
  void Serve(Handler handler);
  int port() const;
  // To every stream that is open.
  void Publish(const std::string& events);

 private:
  class Loop;
  explicit HttpServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

// One server-sent event of one line of data.
std::string ServerSentEvent(absl::string_view name, absl::string_view data);

}  // namespace psgd
