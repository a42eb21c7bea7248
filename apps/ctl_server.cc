#include "apps/ctl_server.h"

#include <filesystem>

#include "absl/strings/str_join.h"

namespace psgd {
namespace {

constexpr Duration kFirstAnswer = std::chrono::seconds(5);  // a server that is there is quick
constexpr Duration kLongAnswer = std::chrono::minutes(10);  // for what takes it time

// An admin's certificate, or an observer's where the folder has no other.
absl::StatusOr<std::shared_ptr<const Credentials>> Tls(const TlsArguments& tls) {
  const bool admin = std::filesystem::exists(CredentialFilesIn(tls.dir, "admin").certificate);
  return LoadTls(tls, admin ? "admin" : "observer");
}

}  // namespace

absl::StatusOr<std::string> ServerKnownToEtcd(const EtcdArguments& etcd, const TlsArguments& tls) {
  PSGD_ASSIGN_OR_RETURN(const auto credentials, Tls(tls));
  PSGD_ASSIGN_OR_RETURN(const auto store, OpenEtcd(etcd, credentials));
  PSGD_ASSIGN_OR_RETURN(const auto servers, ServersOf(*store, store->run()));
  return absl::StrJoin(servers, ",");
}

absl::StatusOr<StatusReply> ReachServer(const std::string& server, const TlsArguments& tls) {
  PSGD_RETURN_IF_ERROR(CheckServerAddress(server));
  PSGD_ASSIGN_OR_RETURN(const auto credentials, Tls(tls));
  ControlClient client({.server = server,
                        .deadline = kFirstAnswer,
                        .interrupted = {},
                        .credentials = credentials});
  return client.Status(StatusRequest());
}

absl::StatusOr<std::unique_ptr<ControlClient>> ConnectServer(const std::string& server,
                                                             const TlsArguments& tls) {
  PSGD_RETURN_IF_ERROR(ReachServer(server, tls).status());
  PSGD_ASSIGN_OR_RETURN(const auto credentials, Tls(tls));
  return std::make_unique<ControlClient>(ControlClientOptions{.server = server,
                                                              .deadline = kLongAnswer,
                                                              .interrupted = {},
                                                              .credentials = credentials});
}

}  // namespace psgd
