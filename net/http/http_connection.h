// One connection of an HTTP server: requests that came, answers that leave.
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

// Not thread-safe: belongs to the server's thread.
class HttpConnection {
 public:
  HttpConnection(std::unique_ptr<HttpSocket> socket, const HttpServerOptions& options, Time now);

  // Sends and receives what can be. False: it is over.
  bool Move(Time now);
  // The next request that is whole, once the one before is answered; one that is none is answered
  // here, and ends the connection.
  std::optional<HttpRequest> NextRequest();
  void Answer(std::string bytes);
  void BeginStream(std::string bytes);
  // More of a stream. False: its reader takes too little, and is to be let go.
  bool AddToStream(const std::string& bytes);

  bool stream() const { return state_ == State::kStream; }
  bool Overdue(Time now) const;
  // What epoll is to say of it.
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
  size_t sent_ = 0;       // of out_
  bool no_more_ = false;  // will come from the other side
  bool last_answer_ = false;
  Time moved_{};  // when it last sent or received
};

}  // namespace psgd
