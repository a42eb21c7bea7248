#include "server/control/run_weights.h"

#include "server/control/peer_client.h"

namespace psgd {

absl::StatusOr<RunModel> ModelOf(const RunLeader* leader) {
  if (leader == nullptr) {
    return absl::UnavailableError("this server does not lead the run (yet)");
  }
  const CoordinatorCore& coordinator = leader->coordinator();
  if (coordinator.model() == nullptr) {
    return absl::FailedPreconditionError(
        "no worker has joined yet, so the server has no weights; ask again once training began");
  }
  RunModel model;
  *model.first.mutable_model() = *coordinator.model();
  *model.first.mutable_config() = coordinator.config();
  model.placement = *coordinator.placement();
  for (const ShardCopies& shard : leader->stored().shards()) {
    std::string& address = model.servers.emplace_back();
    if (shard.leader() == leader->stored().leader()) continue;
    for (const RunServer& server : leader->stored().servers()) {
      if (server.server() == shard.leader()) address = server.address();
    }
  }
  return model;
}

absl::Status RunWeights::Send(const RunModel& model,
                              const std::function<absl::Status(const WeightsChunk&)>& send) const {
  PSGD_RETURN_IF_ERROR(send(model.first));
  const auto take = [&](uint32_t slice, const Bytes& values) {
    WeightsChunk chunk;
    chunk.set_parameter(model.placement.slices(static_cast<int>(slice)).parameter());
    chunk.set_offset(model.placement.slices(static_cast<int>(slice)).offset());
    chunk.set_values(values.data(), values.size());
    return send(chunk);
  };
  for (uint32_t s = 0; s < model.servers.size(); ++s) {
    if (model.servers[s].empty()) {
      PSGD_RETURN_IF_ERROR(copies.Weights(s, take));
      continue;
    }
    ShardWeightsRequest request;
    request.set_run_id(run_id);
    request.set_shard(s);
    PSGD_RETURN_IF_ERROR(ReadShardWeights(model.servers[s], credentials, request, deadline, take));
  }
  return absl::OkStatus();
}

absl::Status RunWeights::SendShard(
    const ShardWeightsRequest& request,
    const std::function<absl::Status(const ShardWeightsChunk&)>& send) const {
  if (request.run_id() != run_id) {
    return absl::FailedPreconditionError("this server is of another run");
  }
  return copies.Weights(request.shard(), [&](uint32_t slice, const Bytes& values) {
    ShardWeightsChunk chunk;
    chunk.set_slice(slice);
    chunk.set_values(values.data(), values.size());
    return send(chunk);
  });
}

}  // namespace psgd
