#include "net/tls_context.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <memory>

namespace psgd {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Text = std::unique_ptr<BIO, FreeBio>;
using Certificate = std::unique_ptr<X509, FreeCertificate>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeKey>;

Text Reading(const std::string& text) {
  return Text(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}
Certificate Next(const Text& text) {
  return Certificate(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
}

}  // namespace

bool ConfigureTlsServer(const Credentials& credentials, SSL_CTX* context) {
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
