// What a follower holds of a run when it takes over.
#pragma once

#include <memory>
#include <vector>

#include "proto/journal.pb.h"
#include "server/control_service.h"
#include "server/coordinator_store.h"
#include "server/durable_shard.h"
#include "server/follower_set.h"

namespace psgd {

struct FollowedRun {
  uint32_t replica = 0;
  CoordinatorRecord record;
  std::unique_ptr<CoordinatorStore> store;
  std::vector<std::unique_ptr<DurableShard>> shards;
  std::shared_ptr<FollowerSet> followers;  // that the shards' journals know
  std::unique_ptr<ControlService> service;
};

// The chain after `replica` took over: it leads, and those behind it follow.
Chain TakenOver(const Chain& chain, uint32_t replica);
bool IsIn(const Chain& chain, uint32_t replica);

}  // namespace psgd
