// The identity of a process: a certificate, its key, and the authority that both sides trust.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// What a certificate is for. The organizational unit (OU) of its subject says so.
enum class Role { kServer, kWorker, kObserver, kAdmin };
absl::string_view RoleName(Role role);

struct CredentialFiles {
  std::string ca;
  std::string certificate;  // the process's own certificate, then the intermediate ones
  std::string key;
};
// Returns ca.crt, NAME.crt and NAME.key of a folder that scripts/make-certs.sh made.
CredentialFiles CredentialFilesIn(const std::string& dir, absl::string_view name);

// PEM texts that were read and checked. Never changes.
struct Credentials {
  std::string ca;
  std::string certificate;
  std::string key;
  Role role = Role::kWorker;
};

// An error names the file and what to do. Errors are: a missing file, a file of another kind, a key
// that others may read or that belongs to another certificate, and a certificate that is expired,
// not yet valid, of another authority, or without a role.
absl::StatusOr<std::shared_ptr<const Credentials>> LoadCredentials(const CredentialFiles& files);

// Whether the certificate is valid for `host`, a name or an address.
bool CredentialsAreFor(const Credentials& credentials, const std::string& host);

// REQUIRES: the certificate was checked to come from the authority.
absl::StatusOr<Role> RoleOfCertificate(absl::string_view pem);

}  // namespace psgd
