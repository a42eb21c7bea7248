// Who a process is on the network: a certificate, its key, and the authority that both sides trust.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// What a certificate is for: its organisational unit (OU) says so.
enum class Role { kServer, kWorker, kObserver, kAdmin };
absl::string_view RoleName(Role role);

struct CredentialFiles {
  std::string ca;
  std::string certificate;  // its own first, then those between it and the authority
  std::string key;
};
// ca.crt, NAME.crt and NAME.key of a folder, as scripts/make-certs.sh makes them.
CredentialFiles CredentialFilesIn(const std::string& dir, absl::string_view name);

// PEM, read and checked. Constant.
struct Credentials {
  std::string ca;
  std::string certificate;
  std::string key;
  Role role = Role::kWorker;
};

// An error names the file and what to do: one that is missing or holds something else, a key that
// others may read or that is another certificate's, a certificate that is expired, not yet valid,
// of another authority, or of no role.
absl::StatusOr<std::shared_ptr<const Credentials>> LoadCredentials(const CredentialFiles& files);

// Whether whoever connects to `host`, a name or an address, will believe that these are its.
bool CredentialsAreFor(const Credentials& credentials, const std::string& host);

// Of a certificate that was checked to come from the authority.
absl::StatusOr<Role> RoleOfCertificate(absl::string_view pem);

}  // namespace psgd
