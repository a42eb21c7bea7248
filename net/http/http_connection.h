// One connection of an HTTP server: incoming requests and outgoing answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "net/http/http_message.h"
#include "net/http/http_server.h"
#include "net/http/http_socket.h"

namespace psgd {

// Not thread-safe; belongs to the server's thread.
class HttpConnection {
 public:
  HttpConnection(std::unique_ptr<HttpSocket> socket, const HttpServerOptions& options, Time now);

  // Sends and receives without waiting. False: the connection is over.
  bool Move(Time now);
  // Returns the next complete request, once the previous one is answered. A malformed request is
  // answered here and ends the connection.
  std::optional<HttpRequest> NextRequest();
  void Answer(std::string bytes);
  void BeginStream(std::string bytes);
  // Appends to the stream. False: the reader is too slow and must be disconnected.
  bool AddToStream(const std::string& bytes);
  // The last answer is sent; only closing is left.
  bool Over() const;

  bool stream() const { return state_ == State::kStream; }
  bool Overdue(Time now) const;
  // The epoll events that the connection waits for.
  uint32_t Interest() const;
  int fd() const { return socket_->fd(); }

 private:
  enum class State { kReading, kAnswering, kStream };
  void Refuse(const absl::Status& why);
  bool Sending() const { return sent_ < out_.size(); }

  const HttpServerOptions& options_;
  const std::unique_ptr<HttpSocket> socket_;
  State state_ = State::kReading;
  std::string in_;
  std::string out_;
  size_t sent_ = 0;       // bytes of out_ that are sent
  bool no_more_ = false;  // the other side sends no more
  bool last_answer_ = false;
  Time moved_{};  // time of the last byte sent or received
};

}  // namespace psgd
