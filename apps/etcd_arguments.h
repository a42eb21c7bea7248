// How a program is told of etcd: the same options for all.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "net/etcd/etcd_chain_store.h"
#include "proto/config.pb.h"

namespace psgd {

struct EtcdArguments {
  std::string members;
  std::string run;  // by name

  bool given() const { return !members.empty(); }
};

inline CLI::Option* AddEtcdOption(CLI::App& app, EtcdArguments& etcd, const std::string& what) {
  return app.add_option("--etcd", etcd.members, what + "; https:// shows it the certificate")
      ->type_name("HOST:PORT[,HOST:PORT]");
}

// For those who look for the run's server there. `server`: the option that names it instead.
inline CLI::Option* AddEtcdOptions(CLI::App& app, EtcdArguments& etcd, CLI::Option* server) {
  auto* members =
      AddEtcdOption(app, etcd, "Members of etcd, which knows where the run's server is");
  members->excludes(server);
  auto* run = app.add_option("--run", etcd.run, "With --etcd: the name of the run")->needs(members);
  members->needs(run);
  return members;
}

// For those whose servers say there where they are.
inline absl::Status CheckSettles(const Config& config) {
  if (config.durability().acknowledge() != DurabilityConfig::MEMORY) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--etcd says where a run's server is by now, and which of several leads, but this run's ends "
      "with its only "
      "server: add --set durability.acknowledge=journal, or replicated");
}

inline absl::StatusOr<std::shared_ptr<EtcdChainStore>> OpenEtcd(
    const EtcdArguments& etcd, std::shared_ptr<const Credentials> credentials,
    Duration silence = Duration(0)) {
  PSGD_RETURN_IF_ERROR(CheckRunName(etcd.run));
  PSGD_ASSIGN_OR_RETURN(EtcdOptions options, ParseEtcd(etcd.members, std::move(credentials)));
  return std::make_shared<EtcdChainStore>(std::move(options), etcd.run, silence);
}

}  // namespace psgd
