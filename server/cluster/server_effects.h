// Effects: what a ServerCore tells its shell to do, in order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

// An order of the run's leader for a shard. It goes to the server with the leading copy.
struct ShardOrderTo {
  uint32_t server = 0;
  uint64_t link = 0;
  uint32_t shard = 0;
  uint64_t epoch = 0;
  uint64_t number = 0;
  ShardCommand command;
};

using ControlRequest =
    std::variant<JoinRequest, RegisterRequest, GiveWeightsRequest, NextSegmentRequest,
                 EvaluatedRequest, HeartbeatRequest, LeaveRequest, CheckpointRequest, DrainRequest,
                 SetHyperRequest, RebalanceRequest, StatusRequest>;
using ControlReply = std::variant<JoinReply, RegisterReply, GiveWeightsReply, NextSegmentReply,
                                  EvaluatedReply, HeartbeatReply, LeaveReply, CheckpointReply,
                                  DrainReply, SetHyperReply, RebalanceReply, StatusReply>;

// A checkpoint that is sealed, so it counts.
struct SealedCheckpoint {
  CheckpointInfo info;
  std::vector<uint64_t> removed;  // older checkpoints
  std::optional<uint64_t> best;   // the one that durability.keep_best keeps
};

// The link of a server to itself.
inline constexpr uint64_t kOwnLink = UINT64_MAX;

namespace effect {

// This server's copy of a shard must lead or follow, as `copy` says.
struct HaveCopy {
  AssignedCopy copy;
};
// OnDropped follows, and no HaveCopy of the shard before it.
struct DropCopy {
  uint32_t shard = 0;
};
struct CheckpointDone {
  uint64_t checkpoint = 0;
};
// Goes to the server that leads the run, which may be this server.
struct SendState {
  ServerState state;
};
// Goes to the server on that link, which may be this server.
struct SendAssignment {
  uint64_t link = 0;
  Assignment assignment;
};
struct SendOrder {
  ShardOrderTo order;
};
// The server on that link is refused, and told why.
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
  std::shared_ptr<const RunPlan> plan;  // null: the stored plan stays
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
// The shard's part of the checkpoint, which a copy here has cut, goes to the run's leader.
struct SendPart {
  uint64_t checkpoint = 0;
  uint32_t shard = 0;
};
// The shard's part, which a copy here has cut or which has come, is written as UnsealedCheckpoint
// says. OnPart follows, unless it is passed over.
struct WritePart {
  uint64_t checkpoint = 0;
  uint32_t shard = 0;
  uint64_t run_epoch = 0;  // under which this server leads the run
};
// OnSealed follows, with the epoch and a SealedCheckpoint.
struct SealCheckpoint {
  CheckpointManifest manifest;
  uint64_t run_epoch = 0;
};
// The checkpoint was not sealed, so its parts must not take the room of the weights.
struct DiscardParts {
  uint64_t checkpoint = 0;
  uint64_t run_epoch = 0;
};
// Secured runs only: from now on a worker may speak. It proves itself with this pass.
struct Admit {
  CoordinatorRecord::Pass pass;
};
// Secured runs only: from now on a worker may not speak.
struct Expel {
  WorkerKey worker;
};
// A worker's report, for the run's records.
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
                 effect::WriteStore, effect::KeepLease, effect::Answer, effect::SendPart,
                 effect::WritePart, effect::SealCheckpoint, effect::DiscardParts, effect::Admit,
                 effect::Expel, effect::Observed, effect::News, effect::End>;
using ServerEffects = std::vector<ServerEffect>;

}  // namespace psgd
