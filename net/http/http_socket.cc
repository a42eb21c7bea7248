#include "net/http/http_socket.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace psgd {

struct HttpSocket::Tls {
  Tls(SSL_CTX* context, int fd) : connection(SSL_new(context)) {
    if (connection == nullptr) return;
    SSL_set_fd(connection, fd);
    SSL_set_accept_state(connection);
  }
  ~Tls() { SSL_free(connection); }
  SSL* const connection;
};

HttpSocket::HttpSocket(int fd, const TlsServerContext* tls)
    : fd_(fd), tls_(tls == nullptr ? nullptr : std::make_unique<Tls>(tls->get(), fd)) {}

HttpSocket::~HttpSocket() {
  if (tls_ && tls_->connection != nullptr) {
    ERR_clear_error();
    SSL_shutdown(tls_->connection);
  }
  tls_.reset();
  close(fd_);
}

HttpSocket::Went HttpSocket::Outcome(int result) {
  wants_write_ = false;
  if (result > 0) return Went::kOn;
  switch (SSL_get_error(tls_->connection, result)) {
    case SSL_ERROR_WANT_READ:
      return Went::kNotNow;
    case SSL_ERROR_WANT_WRITE:
      wants_write_ = true;
      return Went::kNotNow;
    default:
      return Went::kOver;
  }
}

bool HttpSocket::Read(size_t most, std::string* bytes) {
  char block[16 << 10];
  while (most > 0) {
    const size_t room = std::min(most, sizeof block);
    ssize_t got = 0;
    if (tls_) {
      if (tls_->connection == nullptr) return false;
      ERR_clear_error();
      const int result = SSL_read(tls_->connection, block, static_cast<int>(room));
      const Went went = Outcome(result);
      if (went != Went::kOn) return went == Went::kNotNow;
      got = result;
    } else {
      got = recv(fd_, block, room, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno == EAGAIN;
      if (got == 0) return false;
    }
    bytes->append(block, static_cast<size_t>(got));
    most -= static_cast<size_t>(got);
  }
  return true;
}

bool HttpSocket::Write(const std::string& bytes, size_t* done) {
  while (*done < bytes.size()) {
    const size_t left = bytes.size() - *done;
    ssize_t put = 0;
    if (tls_) {
      if (tls_->connection == nullptr) return false;
      ERR_clear_error();
      const int result = SSL_write(tls_->connection, bytes.data() + *done,
                                   static_cast<int>(std::min<size_t>(left, 1 << 20)));
      const Went went = Outcome(result);
      if (went != Went::kOn) return went == Went::kNotNow;
      put = result;
    } else {
      put = send(fd_, bytes.data() + *done, left, MSG_NOSIGNAL);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return (wants_write_ = errno == EAGAIN);
    }
    *done += static_cast<size_t>(put);
  }
  wants_write_ = false;
  return true;
}

absl::StatusOr<Role> HttpSocket::PeerRole() const {
  if (!tls_) return Role::kAdmin;
  return TlsPeerRole(tls_->connection);
}

}  // namespace psgd
