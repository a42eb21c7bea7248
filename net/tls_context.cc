#include "net/tls_context.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>

namespace psgd {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Text = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

Text Reading(const std::string& text) {
  return Text(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}
Certificate Next(const Text& text) {
  return Certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
}

// False: OpenSSL rejects the credentials.
bool Configure(const Credentials& credentials, SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  const Text chain = Reading(credentials.certificate);
  const Certificate own = Next(chain);
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (Certificate between = Next(chain)) {
    if (SSL_CTX_add1_chain_cert(context, between.get()) != 1) return false;
  }
  const PrivateKey key(
      PEM_read_bio_PrivateKey(Reading(credentials.key).get(), nullptr, nullptr, nullptr));
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1) return false;
  const Certificate authority = Next(Reading(credentials.ca));
  if (authority == nullptr ||
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1) {
    return false;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsServerContext>> TlsServerContext::Create(
    const Credentials& credentials) {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return absl::ResourceExhaustedError("OpenSSL has no memory left");
  std::unique_ptr<TlsServerContext> made(new TlsServerContext(context));
  if (!Configure(credentials, context)) {
    return absl::InvalidArgumentError("the certificate of the server's pages could not be used");
  }
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return made;
}

TlsServerContext::~TlsServerContext() { SSL_CTX_free(context_); }

absl::StatusOr<Role> TlsPeerRole(const SSL* connection) {
  const Certificate peer(connection == nullptr ? nullptr : SSL_get1_peer_certificate(connection));
  const Text text(BIO_new(BIO_s_mem()));
  char* pem = nullptr;
  if (peer == nullptr || PEM_write_bio_X509(text.get(), peer.get()) != 1) {
    return absl::UnauthenticatedError("the caller showed no certificate");
  }
  const long size = BIO_get_mem_data(text.get(), &pem);
  return RoleOfCertificate({pem, static_cast<size_t>(size)});
}

}  // namespace psgd
