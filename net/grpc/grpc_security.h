// Our credentials in gRPC's terms. Without credentials: nothing is checked, anybody may listen in.
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

// Both sides have to show a certificate of the authority.
std::shared_ptr<grpc::ServerCredentials> GrpcServerCredentials(const Credentials* credentials);
std::shared_ptr<grpc::ChannelCredentials> GrpcChannelCredentials(const Credentials* credentials);

// The certificate of whoever calls; an error without one.
absl::StatusOr<Role> GrpcCallerRole(const grpc::AuthContext& context);

// The secret word that a member of a secured run says with its calls; empty: none.
void AddGrpcToken(const std::string& token, grpc::ClientContext* context);
std::string GrpcToken(const grpc::ServerContextBase& context);

// A peer that does not finish its handshake is let go.
inline constexpr int kGrpcHandshakeMs = 10'000;
// So is a connection that carries no call: ours do all the time.
inline constexpr int kGrpcIdleMs = 60'000;

}  // namespace psgd
