// One non-blocking connection, with or without TLS. Only the .cc includes OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/status.h"
#include "net/tls_context.h"

namespace psgd {

// Not thread-safe.
class HttpSocket {
 public:
  // Takes over `fd`. REQUIRES: `fd` is non-blocking. `tls`: null for a plain connection.
  HttpSocket(int fd, const TlsServerContext* tls);
  ~HttpSocket();
  HttpSocket(const HttpSocket&) = delete;
  HttpSocket& operator=(const HttpSocket&) = delete;

  // Appends the available bytes, at most `most`. False: the connection is over.
  bool Read(size_t most, std::string* bytes);
  // Writes bytes from `*done` on, as many as fit, and advances `*done`. False: the connection is
  // over.
  bool Write(const std::string& bytes, size_t* done);
  // Whether the last call must wait until the socket is writable.
  bool wants_write() const { return wants_write_; }

  int fd() const { return fd_; }
  absl::StatusOr<Role> PeerRole() const;

 private:
  struct Tls;
  enum class Went { kOn, kNotNow, kOver };
  Went Outcome(int result);

  const int fd_;
  std::unique_ptr<Tls> tls_;
  bool wants_write_ = false;
};

}  // namespace psgd
