// What a ServerCore has its shell do, in order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/status.h"
#include "net/run_store.h"
#include "proto/checkpoint.pb.h"
#include "proto/control.pb.h"
#include "proto/run.pb.h"
#include "server/shard/shard_command.h"

namespace psgd {

// What the server that leads the run has a shard do, on the server whose copy leads.
struct ShardOrderTo {
  uint32_t server = 0;
  uint64_t link = 0;
  uint32_t shard = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;
  ShardCommand command;
};

using ControlRequest =
    std::variant<JoinRequest, RegisterRequest, NextSegmentRequest, EvaluatedRequest,
                 HeartbeatRequest, LeaveRequest, CheckpointRequest, DrainRequest, SetHyperRequest,
                 RebalanceRequest, StatusRequest>;
using ControlReply = std::variant<JoinReply, RegisterReply, NextSegmentReply, EvaluatedReply,
                                  HeartbeatReply, LeaveReply, CheckpointReply, DrainReply,
                                  SetHyperReply, RebalanceReply, StatusReply>;

// The link of a server to itself.
inline constexpr uint64_t kOwnLink = UINT64_MAX;

namespace effect {

// This server's copy of a shard is to lead or follow as it says.
struct HaveCopy {
  AssignedCopy copy;
};
struct DropCopy {
  uint32_t shard = 0;
};
struct CheckpointDone {
  uint64_t checkpoint = 0;
};
// To the server that leads the run; it may be this one.
struct SendState {
  ServerState state;
};
// To the server on that link; it may be this one.
struct SendAssignment {
  uint64_t link = 0;
  Assignment assignment;
};
struct SendOrder {
  ShardOrderTo order;
};
// That server is refused, and told why.
struct Refuse {
  uint64_t link = 0;
  absl::Status why;
};
// OnStoreRead follows.
struct ReadStore {};
// OnStoreWritten follows, with its number.
struct WriteStore {
  uint64_t number = 0;
  int64_t revision = 0;
  RunRecord record;
  std::shared_ptr<const RunPlan> plan;  // null: it is not written anew
  RunStore::As as = RunStore::As::kLeader;
};
// OnLeaseKept follows, with the epoch.
struct KeepLease {
  uint64_t epoch = 0;
};
struct Answer {
  uint64_t request = 0;
  absl::StatusOr<ControlReply> reply;
};
// OnSealed follows.
struct SealCheckpoint {
  CheckpointManifest manifest;
};
// A worker is in the run, with what it says so by; or is out of it. Of secured runs.
struct Admit {
  CoordinatorRecord::Pass pass;
};
struct Expel {
  WorkerKey worker;
};
// What a worker told, for the run's records.
struct Observed {
  std::variant<EvalResult, CodecChoices, std::vector<TraceSpan>> what;
};
struct News {
  std::string text;
};
// This server is not part of the run any more; OK: the run is over.
struct End {
  absl::Status why;
};

}  // namespace effect

using ServerEffect =
    std::variant<effect::HaveCopy, effect::DropCopy, effect::CheckpointDone, effect::SendState,
                 effect::SendAssignment, effect::SendOrder, effect::Refuse, effect::ReadStore,
                 effect::WriteStore, effect::KeepLease, effect::Answer, effect::SealCheckpoint,
                 effect::Admit, effect::Expel, effect::Observed, effect::News, effect::End>;
using ServerEffects = std::vector<ServerEffect>;

}  // namespace psgd
