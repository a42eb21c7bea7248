// One connection that never waits, in clear or under TLS. Only its .cc knows OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/status.h"
#include "net/credentials.h"

struct ssl_ctx_st;

namespace psgd {

// What a server needs for all of its connections.
class TlsServerContext {
 public:
  static absl::StatusOr<std::unique_ptr<TlsServerContext>> Create(const Credentials& credentials);
  ~TlsServerContext();
  ssl_ctx_st* get() const { return context_; }

 private:
  explicit TlsServerContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

// Not thread-safe.
class HttpSocket {
 public:
  // Takes over `fd`, which does not block. `tls`: null for a connection in clear.
  HttpSocket(int fd, const TlsServerContext* tls);
  ~HttpSocket();
  HttpSocket(const HttpSocket&) = delete;
  HttpSocket& operator=(const HttpSocket&) = delete;

  // Appends what is there, up to `most` bytes. False: the connection is over.
  bool Read(size_t most, std::string* bytes);
  // Takes what there is room for from the front of `bytes`, from `*done` on. False: it is over.
  bool Write(const std::string& bytes, size_t* done);
  // What it waits for before it can go on with what was asked last.
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
