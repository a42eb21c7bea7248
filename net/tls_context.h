// OpenSSL setup of a server that asks for certificates. For servers without gRPC.
#pragma once

#include "net/credentials.h"

struct ssl_ctx_st;
struct ssl_st;

namespace psgd {

// TLS 1.2 or newer; both sides must show a certificate of the authority. False: OpenSSL rejects the
// credentials.
bool ConfigureTlsServer(const Credentials& credentials, ssl_ctx_st* context);

// Returns the peer's role. A null `connection` is an error.
absl::StatusOr<Role> TlsPeerRole(const ssl_st* connection);

}  // namespace psgd
