// The options for certificates, the same in all programs.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "net/credentials.h"

namespace psgd {

struct TlsArguments {
  std::string dir;
  std::string ca, certificate, key;

  bool given() const { return !dir.empty() || !ca.empty(); }
};

// `name`: which certificate in the folder belongs to this program.
inline void AddTlsOptions(CLI::App& app, TlsArguments& tls, const std::string& name) {
  auto* dir = app.add_option("--tls-dir", tls.dir,
                             "Folder with ca.crt, " + name + ".crt and " + name +
                                 ".key, as scripts/make-certs.sh makes it: talk securely, to those "
                                 "with certificates of the same ca.crt");
  dir->type_name("DIR");
  const auto file = [&](const std::string& option, std::string& to, const std::string& what) {
    return app.add_option(option, to, what)->type_name("FILE")->excludes(dir);
  };
  auto* ca = file("--tls-ca", tls.ca, "Instead of --tls-dir: the authority's certificate");
  auto* certificate = file("--tls-cert", tls.certificate, "and this program's")->needs(ca);
  auto* key = file("--tls-key", tls.key, "and its key")->needs(certificate);
  ca->needs(key);
}

// Null: no certificates were given.
inline absl::StatusOr<std::shared_ptr<const Credentials>> LoadTls(const TlsArguments& tls,
                                                                  absl::string_view name) {
  if (!tls.given()) return nullptr;
  return LoadCredentials(tls.dir.empty() ? CredentialFiles{tls.ca, tls.certificate, tls.key}
                                         : CredentialFilesIn(tls.dir, name));
}

}  // namespace psgd
