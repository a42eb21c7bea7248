#include "apps/ctl_server.h"

#include <filesystem>
#include <iostream>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status.h"
#include "common/suggest.h"

namespace psgd {
namespace {

constexpr Duration kFirstAnswer = std::chrono::seconds(5);  // a running server answers quickly
constexpr Duration kLongAnswer = std::chrono::minutes(10);  // for slow calls

// Loads an admin's certificate, or an observer's if the folder has no admin's.
absl::StatusOr<std::shared_ptr<const Credentials>> Tls(const TlsArguments& tls) {
  const bool admin = std::filesystem::exists(CredentialFilesIn(tls.dir, "admin").certificate);
  return LoadTls(tls, admin ? "admin" : "observer");
}

}  // namespace

absl::Status FindServers(const EtcdArguments& etcd, const TlsArguments& tls, RunServers* servers) {
  if (!etcd.given()) return absl::OkStatus();
  PSGD_ASSIGN_OR_RETURN(const auto credentials, Tls(tls));
  PSGD_ASSIGN_OR_RETURN(const auto store, OpenEtcd(etcd, credentials));
  servers->find = [store] { return ServersOf(*store, store->run()); };
  PSGD_ASSIGN_OR_RETURN(const auto addresses, servers->find());
  servers->addresses = absl::StrJoin(addresses, ",");
  return absl::OkStatus();
}

absl::StatusOr<StatusReply> ReachServer(const RunServers& servers, const TlsArguments& tls) {
  PSGD_RETURN_IF_ERROR(CheckServerAddress(servers.addresses));
  PSGD_ASSIGN_OR_RETURN(const auto credentials, Tls(tls));
  ControlClient client(
      {.server = servers.addresses,
       .find = servers.find,
       .deadline = kFirstAnswer,
       .interrupted = {},
       .credentials = credentials,
       .on_wait = [](const std::string& text) { std::cerr << "ps-ctl: " << text << "\n"; }});
  return client.Status(StatusRequest());
}

absl::StatusOr<std::unique_ptr<ControlClient>> ConnectServer(const RunServers& servers,
                                                             const TlsArguments& tls) {
  PSGD_RETURN_IF_ERROR(ReachServer(servers, tls).status());
  PSGD_ASSIGN_OR_RETURN(const auto credentials, Tls(tls));
  return std::make_unique<ControlClient>(ControlClientOptions{.server = servers.addresses,
                                                              .find = servers.find,
                                                              .deadline = kLongAnswer,
                                                              .interrupted = {},
                                                              .credentials = credentials});
}

absl::StatusOr<SetHyperRequest> ParseAssignments(const std::vector<std::string>& assignments) {
  SetHyperRequest request;
  for (const std::string& assignment : assignments) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(assignment, absl::MaxSplits('=', 1));
    double value = 0;
    if (!absl::SimpleAtod(parts.second, &value)) {
      return InvalidArgumentError("\"", assignment, "\" is not KEY=NUMBER, as learning_rate=0.01");
    }
    if (parts.first == "learning_rate") {
      request.set_set_learning_rate(true);
      request.mutable_hyper()->set_learning_rate(value);
    } else if (parts.first == "weight_decay") {
      request.set_set_weight_decay(true);
      request.mutable_hyper()->set_weight_decay(value);
    } else {
      return InvalidArgumentError("\"", parts.first, "\" cannot be changed while a run goes on",
                                  Suggest(parts.first, {"learning_rate", "weight_decay"}),
                                  " (learning_rate and weight_decay can)");
    }
  }
  return request;
}

absl::StatusOr<RebalanceRequest> ParseMoves(const std::vector<std::string>& moves) {
  RebalanceRequest request;
  for (const std::string& text : moves) {
    const std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
    uint32_t shard = 0, server = 0;
    if (!absl::SimpleAtoi(sides.first, &shard) || !absl::SimpleAtoi(sides.second, &server)) {
      return InvalidArgumentError(
          "--move ", text,
          " is not SHARD=SERVER, as in --move 0=2; ps-ctl status shows their numbers");
    }
    RebalanceRequest::Move* const move = request.add_moves();
    move->set_shard(shard);
    move->set_server(server);
  }
  return request;
}

std::string OwnersText(const RebalanceReply& reply) {
  std::map<uint32_t, std::vector<int>> shards;
  for (int s = 0; s < reply.owners_size(); ++s) shards[reply.owners(s)].push_back(s);
  std::string text = "the shards go to, one after the other:\n";
  for (const auto& [server, held] : shards) {
    absl::StrAppend(&text, "  server ", server, ": ", absl::StrJoin(held, " "), "\n");
  }
  return text;
}

}  // namespace psgd
