// OpenSSL's side of a server that asks for certificates; for those that do not go through gRPC.
#pragma once

#include "net/credentials.h"

struct ssl_ctx_st;
struct ssl_st;

namespace psgd {

// TLS 1.2 or newer; both sides show a certificate of the authority. False: the credentials do not
// fit.
bool ConfigureTlsServer(const Credentials& credentials, ssl_ctx_st* context);

// Of whoever is at the other end; null: an error.
absl::StatusOr<Role> TlsPeerRole(const ssl_st* connection);

}  // namespace psgd
