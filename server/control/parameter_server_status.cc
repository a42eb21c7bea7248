// The part of ParameterServer that tells what it has.
#include "server/control/parameter_server.h"

namespace psgd {

absl::StatusOr<StatusReply> ParameterServer::Status(const StatusRequest&) {
  std::unique_lock lock(mutex_);
  StatusReply status = core_.Status(SteadyNow());
  for (const auto& [info, taken] : checkpoints_) {
    *status.add_checkpoints() = info;
    status.mutable_checkpoints()->rbegin()->set_age_seconds(Seconds(SteadyNow() - taken));
  }
  if (followers_ != nullptr) {
    *status.mutable_chain() = keeper_->chain();
    status.set_chain_trouble(chain_trouble_);
    for (FollowerStatus& follower : followers_->Status()) {
      *status.add_followers() = std::move(follower);
    }
  }
  if (!hosts_.empty()) {
    ServerStatus* const self = status.add_servers();
    self->set_server(kThisServer);
    self->set_name("coordinator");
    self->set_connected(true);
  }
  for (const auto& [server, host] : hosts_) *status.add_servers() = host->Status();
  const std::vector<uint32_t> owners = moves_.owners();
  lock.unlock();
  status.set_run_dir(options_.run_dir);
  for (const auto& shard : Shards()) {
    *status.add_shards() = shard->Status();
    status.mutable_shards()->rbegin()->set_server(owners[status.shards_size() - 1]);
  }
  for (const auto& [reason, count] : guard_.refused()) (*status.mutable_refused())[reason] = count;
  return status;
}

absl::Status ParameterServer::Weights(
    const std::function<absl::Status(const WeightsChunk&)>& send) {
  Placement placement;
  {
    std::lock_guard lock(mutex_);
    if (core_.model() == nullptr) {
      return absl::FailedPreconditionError(
          "no worker has joined yet, so the server has no weights; ask again once training began");
    }
    placement = *core_.placement();
    WeightsChunk first;
    *first.mutable_model() = *core_.model();
    *first.mutable_config() = core_.config();
    PSGD_RETURN_IF_ERROR(send(first));
  }
  for (const auto& shard : Shards()) {
    PSGD_RETURN_IF_ERROR(shard->Weights([&](uint32_t slice, const Bytes& values) {
      WeightsChunk chunk;
      chunk.set_parameter(placement.slices(static_cast<int>(slice)).parameter());
      chunk.set_offset(placement.slices(static_cast<int>(slice)).offset());
      chunk.set_values(values.data(), values.size());
      return send(chunk);
    }));
  }
  return absl::OkStatus();
}

}  // namespace psgd
