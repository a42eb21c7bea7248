// The part of ParameterServer that makes the shards and gives them their ports.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/journal_folder.h"
#include "server/parameter_server.h"
#include "server/replicated_journal.h"
#include "server/rocks_journal.h"

namespace psgd {

bool ParameterServer::KnownAddresses() const {
  return recovered_ && recovered_->placement().endpoints_size() > 0;
}

std::string ParameterServer::ShardAddress(uint32_t shard) const {
  const bool ipc = options_.config.cluster().transport() == ClusterConfig::IPC;
  if (KnownAddresses()) {
    // The workers know it by this address; its host may be the one that was advertised.
    const std::string& known = recovered_->placement().endpoints(static_cast<int>(shard));
    return ipc ? known : absl::StrCat("tcp://", options_.host, known.substr(known.rfind(':')));
  }
  if (ipc) return absl::StrCat("ipc://", sockets_->path(), "/shard-", shard, ".sock");
  return absl::StrCat("tcp://", options_.host, ":0");
}

absl::Status ParameterServer::StartTransport() {
  TransportOptions transport_options;
  transport_options.queue_bytes = options_.config.cluster().queue();
  transport_options.log = options_.log;
  transport_options.security = DataSecurity();
  PSGD_ASSIGN_OR_RETURN(transport_,
                        MakeTransport(options_.config.cluster().transport(), transport_options));
  if (options_.config.cluster().transport() != ClusterConfig::IPC) return absl::OkStatus();
  const auto reopen = [&] {
    const std::string first = ShardAddress(0).substr(std::string("ipc://").size());
    return SocketFolder::Reopen(first.substr(0, first.rfind('/')));
  };
  PSGD_ASSIGN_OR_RETURN(SocketFolder folder, KnownAddresses() ? reopen() : SocketFolder::Create());
  sockets_.emplace(std::move(folder));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DurableShard>> ParameterServer::MakeShard(
    uint32_t shard, std::vector<std::string>* notes) const {
  DurableShardOptions options =
      DurableShardOptionsOf(options_.config, shard, recovered_ ? recovered_->starts() : 1);
  if (!HasJournal()) return std::make_unique<DurableShard>(std::move(options));
  RocksJournalOptions journal;
  journal.folder = JournalFolder(options_.journal_dir, absl::StrCat("shard-", shard));
  journal.shard = shard;
  journal.sync = SyncsJournal();
  journal.failpoint = options_.failpoint;
  auto rocks = recovered_ ? RocksJournal::Open(std::move(journal))
                          : RocksJournal::Create(std::move(journal));
  PSGD_RETURN_IF_ERROR(rocks.status());
  options.journal = *std::move(rocks);
  if (followers_ != nullptr) {
    options.journal =
        std::make_unique<ReplicatedJournal>(std::move(options.journal), shard, followers_);
  }
  if (recovered_) return DurableShard::Recover(std::move(options), notes);
  return std::make_unique<DurableShard>(std::move(options));
}

absl::Status ParameterServer::Serve(uint32_t shard, std::unique_ptr<DurableShard> durable) {
  PSGD_ASSIGN_OR_RETURN(auto endpoint, transport_->Listen(ShardAddress(shard)));
  ShardCallbacks callbacks;
  callbacks.on_cut = [this](uint32_t index, ShardCut cut) {
    to_write_.TryPush({index, std::move(cut)});
  };
  callbacks.on_quarantine = [this](QuarantinedWorker worker) {
    quarantined_.TryPush(std::move(worker));
  };
  callbacks.on_image = [this](uint32_t index, ShardImage image) {
    to_write_.TryPush({index, std::move(image)});
  };
  if (options_.failpoint) {
    callbacks.on_sent = [plan = options_.failpoint] { plan->Reach(Failpoint::kAnswersSent); };
  }
  callbacks.on_spans = options_.trace_steps > 0 ? options_.on_spans : nullptr;
  callbacks.trace_steps = options_.trace_steps;
  shards_.push_back(std::make_unique<ShardServer>(shard, std::move(durable), std::move(endpoint),
                                                  std::move(callbacks), options_.log));
  return absl::OkStatus();
}

absl::Status ParameterServer::StartShards() {
  for (int s = 0; s < options_.config.cluster().shards(); ++s) {
    PSGD_ASSIGN_OR_RETURN(auto shard, MakeShard(s, nullptr));
    PSGD_RETURN_IF_ERROR(Serve(s, std::move(shard)));
  }
  return absl::OkStatus();
}

std::vector<std::string> ParameterServer::Endpoints() const {
  std::vector<std::string> endpoints;
  for (const auto& shard : shards_) {
    std::string address = shard->address();
    if (!options_.advertise.empty() && address.rfind("tcp://", 0) == 0) {
      address = absl::StrCat("tcp://", options_.advertise, address.substr(address.rfind(':')));
    }
    endpoints.push_back(std::move(address));
  }
  return endpoints;
}

}  // namespace psgd
