// The part of ParameterServer that has the shards made.
#include <utility>

#include "server/control/parameter_server.h"

namespace psgd {

absl::Status ParameterServer::OpenShardSet() {
  ShardSetOptions set;
  set.config = options_.config;
  set.host = options_.host;
  set.advertise = options_.advertise;
  set.journal_dir = options_.journal_dir;
  set.security = DataSecurity();
  set.followers = followers_;
  set.failpoint = options_.failpoint;
  if (recovered_) {
    const auto& endpoints = recovered_->placement().endpoints();
    for (int s = 0; s < endpoints.size(); ++s) set.known[s] = endpoints[s];
  }
  set.callbacks.on_cut = [this](uint32_t shard, ShardCut cut) {
    to_write_.TryPush({shard, std::move(cut)});
  };
  set.callbacks.on_quarantine = [this](QuarantinedWorker worker) {
    quarantined_.TryPush(std::move(worker));
  };
  set.callbacks.on_image = [this](uint32_t shard, ShardImage image) {
    to_write_.TryPush({shard, std::move(image)});
  };
  if (options_.failpoint) {
    set.callbacks.on_sent = [plan = options_.failpoint] { plan->Reach(Failpoint::kAnswersSent); };
  }
  set.callbacks.on_spans = SpansOf(kThisServer);
  set.callbacks.trace_steps = options_.trace_steps;
  set.log = options_.log;
  PSGD_ASSIGN_OR_RETURN(local_, ShardSet::Open(std::move(set)));
  return absl::OkStatus();
}

absl::Status ParameterServer::StartShards() {
  RestoreOwners();
  for (int s = 0; s < options_.config.cluster().shards(); ++s) {
    PSGD_ASSIGN_OR_RETURN(auto durable, local_->Create(s, /*starts=*/1));
    PSGD_ASSIGN_OR_RETURN(auto shard, local_->Serve(s, std::move(durable)));
    shards_.push_back(std::move(shard));
  }
  return absl::OkStatus();
}

std::vector<std::shared_ptr<ShardHandle>> ParameterServer::Shards() const {
  std::lock_guard lock(shards_mutex_);
  return shards_;
}

std::vector<std::string> ParameterServer::Endpoints() const {
  std::vector<std::string> endpoints;
  for (const auto& shard : Shards()) endpoints.push_back(shard->address());
  return endpoints;
}

}  // namespace psgd
