#include "net/credentials.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace psgd {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr char kAnew[] = "make new ones with scripts/make-certs.sh";

// The names are in certificates: do not change.
constexpr std::array<std::pair<Role, absl::string_view>, 4> kRoles = {{
    {Role::kServer, "server"},
    {Role::kWorker, "worker"},
    {Role::kObserver, "observer"},
    {Role::kAdmin, "admin"},
}};

template <typename T, void (*kFree)(T*)>
struct Free {
  void operator()(T* object) const { kFree(object); }
};
template <typename T, void (*kFree)(T*)>
using Owned = std::unique_ptr<T, Free<T, kFree>>;

using Certificate = Owned<X509, X509_free>;
using PrivateKey = Owned<EVP_PKEY, EVP_PKEY_free>;
using Store = Owned<X509_STORE, X509_STORE_free>;
using StoreContext = Owned<X509_STORE_CTX, X509_STORE_CTX_free>;
struct Memory {
  explicit Memory(absl::string_view text)
      : bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))) {}
  ~Memory() { BIO_free(bio); }
  BIO* const bio;
};
struct Chain {
  ~Chain() { sk_X509_pop_free(certificates, X509_free); }
  STACK_OF(X509) * const certificates = sk_X509_new_null();
};

// Refuses a key with a pass phrase. Otherwise OpenSSL asks for the phrase on the terminal.
int NoPassPhrase(char*, int, int, void*) { return -1; }

absl::Status Wrong(const std::string& path, absl::string_view what) {
  return InvalidArgumentError(path, " ", what);
}

absl::Status CheckKeyFile(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return FileError("read the key", path, errno);
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) == 0) return absl::OkStatus();
  return Wrong(path, absl::StrCat("is a private key that other users may read or write; if none "
                                  "did: chmod 600 ",
                                  path, "; else ", kAnew));
}

// Returns the first certificate of the file. The others go to `chain`.
absl::StatusOr<Certificate> ReadCertificates(const std::string& path, absl::string_view pem,
                                             Chain* chain) {
  const Memory text(pem);
  Certificate first(PEM_read_bio_X509(text.bio, nullptr, NoPassPhrase, nullptr));
  if (first == nullptr) {
    return Wrong(path,
                 "holds no certificate (PEM, -----BEGIN CERTIFICATE-----); was another file "
                 "meant?");
  }
  while (X509* next = PEM_read_bio_X509(text.bio, nullptr, NoPassPhrase, nullptr)) {
    sk_X509_push(chain->certificates, next);
  }
  return first;
}

absl::Status CheckTime(const std::string& path, const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return Wrong(path, "is not valid yet; is this machine's clock right?");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return Wrong(path, "has expired; make a new one: scripts/make-certs.sh --renew ROLE DIR");
  }
  return absl::OkStatus();
}

absl::Status CheckAuthority(const CredentialFiles& files, X509* authority, X509* certificate,
                            const Chain& chain, Role role) {
  const Store store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  X509_STORE_add_cert(store.get(), authority);
  X509_STORE_CTX_init(context.get(), store.get(), certificate, chain.certificates);
  X509_STORE_CTX_set_purpose(
      context.get(), role == Role::kServer ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  return Wrong(files.certificate,
               absl::StrCat("is not one that ", files.ca, " stands for (",
                            X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())),
                            "); take both from one run of scripts/make-certs.sh"));
}

absl::StatusOr<Role> RoleOf(const X509* certificate) {
  const X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_organizationalUnitName, -1);
  const bool one =
      at >= 0 && X509_NAME_get_index_by_NID(subject, NID_organizationalUnitName, at) < 0;
  std::string unit;
  if (one) {
    const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    unit.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                static_cast<size_t>(ASN1_STRING_length(text)));
  }
  for (const auto& [role, name] : kRoles) {
    if (unit == name) return role;
  }
  return absl::InvalidArgumentError(
      "its subject has not one organisational unit (OU) that is server, worker, observer or admin");
}

}  // namespace

absl::string_view RoleName(Role role) {
  for (const auto& [known, name] : kRoles) {
    if (known == role) return name;
  }
  return "unknown";
}

CredentialFiles CredentialFilesIn(const std::string& dir, absl::string_view name) {
  return {absl::StrCat(dir, "/ca.crt"), absl::StrCat(dir, "/", name, ".crt"),
          absl::StrCat(dir, "/", name, ".key")};
}

absl::StatusOr<std::shared_ptr<const Credentials>> LoadCredentials(const CredentialFiles& files) {
  auto credentials = std::make_shared<Credentials>();
  PSGD_ASSIGN_OR_RETURN(credentials->ca, ReadSmallFile(files.ca, kMostBytes));
  PSGD_ASSIGN_OR_RETURN(credentials->certificate, ReadSmallFile(files.certificate, kMostBytes));
  PSGD_RETURN_IF_ERROR(CheckKeyFile(files.key));
  PSGD_ASSIGN_OR_RETURN(credentials->key, ReadSmallFile(files.key, kMostBytes));

  Chain authorities, chain;
  PSGD_ASSIGN_OR_RETURN(const Certificate authority,
                        ReadCertificates(files.ca, credentials->ca, &authorities));
  PSGD_ASSIGN_OR_RETURN(const Certificate certificate,
                        ReadCertificates(files.certificate, credentials->certificate, &chain));
  const Memory text(credentials->key);
  const PrivateKey key(PEM_read_bio_PrivateKey(text.bio, nullptr, NoPassPhrase, nullptr));
  if (key == nullptr) {
    return Wrong(files.key,
                 "holds no private key without a pass phrase (PEM, -----BEGIN PRIVATE "
                 "KEY-----); was another file meant?");
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Wrong(files.key, absl::StrCat("is not the key of ", files.certificate,
                                         "; take both from one run of scripts/make-certs.sh"));
  }
  PSGD_RETURN_IF_ERROR(CheckTime(files.ca, authority.get()));
  PSGD_RETURN_IF_ERROR(CheckTime(files.certificate, certificate.get()));
  const absl::StatusOr<Role> role = RoleOf(certificate.get());
  PSGD_RETURN_IF_ERROR(Annotate(role.status(), files.certificate));
  credentials->role = *role;
  PSGD_RETURN_IF_ERROR(
      CheckAuthority(files, authority.get(), certificate.get(), chain, credentials->role));
  return credentials;
}

bool CredentialsAreFor(const Credentials& credentials, const std::string& host) {
  const Memory text(credentials.certificate);
  const Certificate own(PEM_read_bio_X509(text.bio, nullptr, NoPassPhrase, nullptr));
  return own != nullptr && (X509_check_ip_asc(own.get(), host.c_str(), 0) == 1 ||
                            X509_check_host(own.get(), host.data(), host.size(), 0, nullptr) == 1);
}

absl::StatusOr<Role> RoleOfCertificate(absl::string_view pem) {
  Chain chain;
  PSGD_ASSIGN_OR_RETURN(const Certificate certificate,
                        ReadCertificates("the peer's certificate", pem, &chain));
  return RoleOf(certificate.get());
}

}  // namespace psgd
