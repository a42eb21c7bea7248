// OpenSSL setup of a server that asks for certificates. For servers without gRPC.
#pragma once

#include <memory>

#include "net/credentials.h"

struct ssl_ctx_st;
struct ssl_st;

namespace psgd {

// The TLS state that all connections of a server share: TLS 1.2 or newer; both sides must show a
// certificate of the authority.
class TlsServerContext {
 public:
  static absl::StatusOr<std::unique_ptr<TlsServerContext>> Create(const Credentials& credentials);
  ~TlsServerContext();
  ssl_ctx_st* get() const { return context_; }

 private:
  explicit TlsServerContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* const context_;
};

// Returns the peer's role. A null `connection` is an error.
absl::StatusOr<Role> TlsPeerRole(const ssl_st* connection);

}  // namespace psgd
