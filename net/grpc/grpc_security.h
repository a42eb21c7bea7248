// Our credentials in gRPC's types. Without credentials nothing is checked or encrypted.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "net/credentials.h"

namespace psgd {

// Both sides must show a certificate of the authority.
std::shared_ptr<grpc::ServerCredentials> GrpcServerCredentials(const Credentials* credentials);
std::shared_ptr<grpc::ChannelCredentials> GrpcChannelCredentials(const Credentials* credentials);

// Returns the role in the caller's certificate; an error without a certificate.
absl::StatusOr<Role> GrpcCallerRole(const grpc::AuthContext& context);

// The secret token that a member of a secured run sends with its calls. Empty: no token.
void AddGrpcToken(const std::string& token, grpc::ClientContext* context);
std::string GrpcToken(const grpc::ServerContextBase& context);

// A peer that does not finish its handshake in this time is disconnected.
inline constexpr int kGrpcHandshakeMs = 10'000;
// A connection without any call for this time is closed. Our connections always carry a call.
inline constexpr int kGrpcIdleMs = 60'000;
// A vanished host is noticed after half a minute.
inline constexpr int kGrpcKeepaliveMs = 20'000;
inline constexpr int kGrpcKeepaliveTimeoutMs = 10'000;

}  // namespace psgd
