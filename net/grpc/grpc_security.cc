#include "net/grpc/grpc_security.h"

#include <vector>

namespace psgd {
namespace {
constexpr char kTokenHeader[] = "psgd-token";
}  // namespace

std::shared_ptr<grpc::ServerCredentials> GrpcServerCredentials(const Credentials* credentials) {
  if (credentials == nullptr) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = credentials->ca;
  options.pem_key_cert_pairs.push_back({credentials->key, credentials->certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> GrpcChannelCredentials(const Credentials* credentials) {
  if (credentials == nullptr) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = credentials->ca;
  options.pem_private_key = credentials->key;
  options.pem_cert_chain = credentials->certificate;
  return grpc::SslCredentials(options);
}

absl::StatusOr<Role> GrpcCallerRole(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> found =
      context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (found.empty()) return absl::UnauthenticatedError("the caller showed no certificate");
  return RoleOfCertificate({found[0].data(), found[0].size()});
}

void AddGrpcToken(const std::string& token, grpc::ClientContext* context) {
  if (!token.empty()) context->AddMetadata(kTokenHeader, token);
}

std::string GrpcToken(const grpc::ServerContextBase& context) {
  const auto it = context.client_metadata().find(kTokenHeader);
  return it == context.client_metadata().end() ? ""
                                               : std::string(it->second.data(), it->second.size());
}

}  // namespace psgd
