// The options for etcd, the same in all programs.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "net/etcd/etcd_run_store.h"
#include "proto/config.pb.h"
#include "proto/has_journal.h"

namespace psgd {

struct EtcdArguments {
  std::string members;
  std::string run;  // name of the run

  bool given() const { return !members.empty(); }
};

inline CLI::Option* AddEtcdOption(CLI::App& app, EtcdArguments& etcd, const std::string& what) {
  return app.add_option("--etcd", etcd.members, what + "; https:// shows it the certificate")
      ->type_name("HOST:PORT[,HOST:PORT]");
}

// For programs that find the run's server in etcd. `server` is the option that names the server
// instead.
inline CLI::Option* AddEtcdOptions(CLI::App& app, EtcdArguments& etcd, CLI::Option* server) {
  auto* members =
      AddEtcdOption(app, etcd, "Members of etcd, which knows where the run's server is");
  members->excludes(server);
  auto* run = app.add_option("--run", etcd.run, "With --etcd: the name of the run")->needs(members);
  members->needs(run);
  return members;
}

// Checks that a run whose servers choose their leader through etcd can survive its first server.
inline absl::Status CheckSettles(const Config& config) {
  if (HasJournal(config) || config.cluster().copies() > 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--etcd settles which server leads, and says where it is by now, but this run ends with its "
      "first server, which alone has its shards in memory: add --set "
      "durability.acknowledge=journal, or --set cluster.copies=2 --set cluster.servers=2");
}

inline absl::StatusOr<std::shared_ptr<EtcdRunStore>> OpenEtcd(
    const EtcdArguments& etcd, std::shared_ptr<const Credentials> credentials,
    Duration silence = Duration(0)) {
  PSGD_RETURN_IF_ERROR(CheckRunName(etcd.run));
  PSGD_ASSIGN_OR_RETURN(EtcdOptions options, ParseEtcd(etcd.members, std::move(credentials)));
  return std::make_shared<EtcdRunStore>(std::move(options), etcd.run, silence);
}

}  // namespace psgd
