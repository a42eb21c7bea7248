// The part of ParameterServer that leads followers: docs/durability.md.
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/names.h"
#include "net/wire_format.h"
#include "server/control/parameter_server.h"
#include "server/coordinator/access.h"
#include "server/durability/shard_parts.h"

namespace psgd {
namespace {

constexpr Duration kStartRetry = std::chrono::milliseconds(20);
constexpr int kMostFollowers = 16;  // connected at once

Chain::Member MemberOf(const FollowerSays::Ask& ask) {
  Chain::Member member;
  member.set_replica(ask.replica());
  member.set_address(ask.address());
  member.set_identity(ask.identity());
  return member;
}

// A follower hears something at least ten times before it would take over.
Duration AlivePeriod(const Config& config) {
  return Milliseconds(config.durability().takeover()) / 10;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::TakeOver(
    ParameterServerOptions options, FollowedRun followed) {
  CoordinatorRecord& record = followed.record;
  *record.mutable_chain() = followed.led.chain;
  options.replica = followed.replica;
  options.chains = std::move(followed.chains);
  options.control_port = followed.service->port();
  PSGD_ASSIGN_OR_RETURN(auto server,
                        FromRecord(std::move(options), std::move(record), std::move(followed.store),
                                   std::move(followed.followers), followed.led));
  server->service_ = std::move(followed.service);
  PSGD_RETURN_IF_ERROR(server->OpenShardSet());
  server->RestoreOwners();
  for (uint32_t s = 0; s < followed.shards.size(); ++s) {
    PSGD_RETURN_IF_ERROR(server->ServeAgain(s, std::move(followed.shards[s])));
  }
  PSGD_RETURN_IF_ERROR(server->WentOn(absl::StrCat("follower ", followed.replica, " took over")));
  PSGD_RETURN_IF_ERROR(server->Open());
  return server;
}

absl::Status ParameterServer::ShipRecord(const CoordinatorRecord* record, bool wait) {
  if (followers_ == nullptr) return absl::OkStatus();
  const uint32_t log = followers_->coordinator_log();
  if (record != nullptr) {
    auto part = std::make_shared<LogPart>();
    LogPart::Record& shipped = *part->mutable_record();
    shipped.set_number(++shipped_records_);
    *shipped.mutable_record() = *record;
    // By far the largest part, and every report of a worker makes a record.
    shipped.set_same_plan(core_.placement() == shipped_plan_);
    if (shipped.same_plan()) {
      shipped.mutable_record()->clear_model();
      shipped.mutable_record()->clear_placement();
    }
    shipped_plan_ = core_.placement();
    followers_->Publish(log, std::move(part), shipped_records_);
    followers_->NamedBy(shipped_records_, record->chain());
  }
  return wait ? followers_->WaitWritten(log, shipped_records_) : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<FollowerLog>> ParameterServer::BeginCoordinatorLog(
    const Chain::Member& follower, FollowerStream* stream) {
  LogPart run;
  *run.mutable_run()->mutable_config() = options_.config;
  run.mutable_run()->set_replica(follower.replica());
  run.mutable_run()->set_starts((recovered_ ? recovered_->starts() : 1) + lives_);
  run.mutable_run()->set_run_id(keeper_->chain().run_id());
  // It says so once it holds nothing any more.
  FollowerSays empty;
  if (!stream->Send(run) || !stream->Receive(&empty)) {
    return absl::CancelledError("the follower is gone");
  }
  // Then one that was here before cannot take over.
  PSGD_RETURN_IF_ERROR(keeper_->BeginsAnew(follower));
  std::lock_guard lock(mutex_);
  auto log = std::make_shared<FollowerLog>(shipped_records_);
  PSGD_RETURN_IF_ERROR(followers_->Connect(follower, followers_->coordinator_log(), log));
  shipped_plan_.reset();
  if (core_.model() != nullptr) {
    const CoordinatorRecord record = Record();
    PSGD_RETURN_IF_ERROR(ShipRecord(&record, /*wait=*/false));
  }
  return log;
}

absl::StatusOr<std::shared_ptr<FollowerLog>> ParameterServer::BeginShardLog(
    const FollowerSays::Ask& ask, FollowerStream* stream) {
  std::shared_ptr<FollowerLog> log;
  absl::Status connected;
  LogPart alive;
  alive.mutable_alive();
  while (true) {
    const auto start = local_->Find(ask.shard())->BeginFollower([&](uint64_t last) {
      log = std::make_shared<FollowerLog>(last);
      connected = followers_->Connect(MemberOf(ask), ask.shard(), log);
    });
    PSGD_RETURN_IF_ERROR(connected);
    if (start.ok()) {
      const auto send = [&](const ShardPart& piece) {
        LogPart part;
        *part.mutable_shard() = piece;
        return stream->Send(part);
      };
      const JournalEntries since{start->image.record.entry() + 1, start->entries};
      if (!SendImage(ask.shard(), start->image, send) || !SendEntries(ask.shard(), since, send))
        log->Close();
      return log;
    }
    if (!absl::IsUnavailable(start.status())) return start.status();
    std::this_thread::sleep_for(kStartRetry);
    if (stream->gone() || !stream->Send(alive)) return absl::CancelledError("the follower is gone");
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::UnavailableError("the server ends");
  }
}

absl::Status ParameterServer::Follow(const FollowerSays::Ask& ask, FollowerStream* stream) {
  if (followers_ == nullptr) {
    return absl::FailedPreconditionError(
        "this run has no followers: its durability.acknowledge is not replicated");
  }
  if (ask.protocol() != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the follower speaks protocol ", ask.protocol(), ", this server ",
                     kProtocolVersion, "; install the same version of psgd on both"));
  }
  // Others are told it, and logs and people.
  const bool one_line =
      ask.address().find('\n') == std::string::npos && Readable(ask.address()) == ask.address();
  if (ask.address().empty() || !one_line) {
    return absl::InvalidArgumentError("a follower has to say where it would lead, as HOST:PORT");
  }
  if (const std::string run_id = keeper_->chain().run_id();
      !ask.run_id().empty() && ask.run_id() != run_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the run directory of that server is of another run (", ask.run_id(), "; this is ", run_id,
        "); take an empty one, or follow the run that it is of"));
  }
  Chain::Member follower = MemberOf(ask);
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::UnavailableError("the server ends");
    if (followers_->Status().size() >= kMostFollowers) {
      return absl::ResourceExhaustedError("this run has too many followers");
    }
    if (follower.replica() == options_.replica) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server ", options_.replica, " leads; a follower has another number (--replica)"));
    }
    if (follower.replica() == 0) follower.set_replica(next_replica_);
    next_replica_ = std::max(next_replica_, follower.replica() + 1);
  }
  PSGD_RETURN_IF_ERROR(followers_->CheckNumber(follower));
  const bool coordinator = ask.has_coordinator();
  if (!coordinator && (!ask.has_shard() || local_->Find(ask.shard()) == nullptr)) {
    return absl::InvalidArgumentError("there is no such log");
  }
  PSGD_ASSIGN_OR_RETURN(const auto log, coordinator ? BeginCoordinatorLog(follower, stream)
                                                    : BeginShardLog(ask, stream));
  SendLog(*log, *stream, AlivePeriod(options_.config));
  followers_->Disconnect(follower.replica(),
                         coordinator ? followers_->coordinator_log() : ask.shard(), log.get());
  return absl::OkStatus();
}

}  // namespace psgd
