// What a follower holds of a run when it takes over.
#pragma once

#include <memory>
#include <vector>

#include "proto/journal.pb.h"
#include "server/control/chain.h"
#include "server/control/control_service.h"
#include "server/control/follower_set.h"
#include "server/durability/coordinator_store.h"
#include "server/durability/durable_shard.h"

namespace psgd {

struct FollowedRun {
  uint32_t replica = 0;
  CoordinatorRecord record;
  std::unique_ptr<CoordinatorStore> store;
  std::vector<std::unique_ptr<DurableShard>> shards;
  std::shared_ptr<FollowerSet> followers;  // that the shards' journals know
  std::shared_ptr<ChainStore> chains;
  LedChain led;  // with which it took over
  std::unique_ptr<ControlService> service;
};

}  // namespace psgd
