// The part of ParameterServer that leads followers: docs/durability.md.
#include <thread>

#include "absl/strings/str_cat.h"
#include "net/wire_format.h"
#include "server/checkpoint_database.h"
#include "server/journal_format.h"
#include "server/parameter_server.h"

namespace psgd {
namespace {

constexpr Duration kStartRetry = std::chrono::milliseconds(20);
constexpr int kMostFollowers = 16;  // connected at once
constexpr size_t kEntriesTogether = 4u << 20;

// A follower hears something at least ten times before it would take over.
Duration AlivePeriod(const Config& config) {
  return Milliseconds(config.durability().takeover()) / 10;
}

bool SendImage(const ShardImage& image, FollowerStream* stream) {
  LogPart part;
  *part.mutable_image() = image.record;
  part.mutable_image()->clear_receipt();
  if (!stream->Send(part)) return false;
  ShardReceipt receipt;
  const absl::Status status =
      ForEachPair(image.arrays, &receipt, [&](absl::string_view key, const std::string& value) {
        part.mutable_pair()->set_key(key.data(), key.size());
        part.mutable_pair()->set_value(value);
        return stream->Send(part) ? absl::OkStatus() : absl::CancelledError("the follower is gone");
      });
  *part.mutable_image_end() = receipt;
  return status.ok() && stream->Send(part);
}

bool SendEntries(uint64_t first, const std::vector<JournalEntry>& entries, FollowerStream* stream) {
  LogPart part;
  size_t bytes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!part.has_entries()) part.mutable_entries()->set_first(first + i);
    EncodeEntry(EncodeJournalKey(JournalKind::kEntry, first + i), entries[i],
                part.mutable_entries()->add_values());
    bytes += entries[i].bytes();
    if (bytes < kEntriesTogether && i + 1 < entries.size()) continue;
    if (!stream->Send(part)) return false;
    part.Clear();
    bytes = 0;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::TakeOver(
    ParameterServerOptions options, FollowedRun followed) {
  CoordinatorRecord& record = followed.record;
  *record.mutable_chain() = followed.led.chain;
  options.replica = followed.replica;
  options.chains = std::move(followed.chains);
  options.control_port = followed.service->port();
  PSGD_ASSIGN_OR_RETURN(auto server, FromRecord(std::move(options), std::move(record),
                                                std::move(followed.store),
                                                std::move(followed.followers), followed.led));
  server->service_ = std::move(followed.service);
  PSGD_RETURN_IF_ERROR(server->OpenShardSet());
  server->RestoreOwners();
  for (uint32_t s = 0; s < followed.shards.size(); ++s) {
    PSGD_RETURN_IF_ERROR(server->ServeAgain(s, std::move(followed.shards[s])));
  }
  PSGD_RETURN_IF_ERROR(
      server->WentOn(absl::StrCat("follower ", followed.replica, " took over")));
  PSGD_RETURN_IF_ERROR(server->Open());
  return server;
}

absl::Status ParameterServer::ShipRecord(const CoordinatorRecord* record, bool wait) {
  if (followers_ == nullptr) return absl::OkStatus();
  const uint32_t log = followers_->coordinator_log();
  if (record != nullptr) {
    auto part = std::make_shared<LogPart>();
    part->mutable_record()->set_number(++shipped_records_);
    *part->mutable_record()->mutable_record() = *record;
    followers_->Publish(log, std::move(part), shipped_records_);
  }
  return wait ? followers_->WaitWritten(log, shipped_records_) : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<FollowerLog>> ParameterServer::BeginCoordinatorLog(
    const FollowerSays::Ask& ask, uint32_t replica, FollowerStream* stream) {
  LogPart run;
  *run.mutable_run()->mutable_config() = options_.config;
  run.mutable_run()->set_replica(replica);
  run.mutable_run()->set_starts((recovered_ ? recovered_->starts() : 1) + lives_);
  // It says so once it holds nothing any more.
  FollowerSays empty;
  if (!stream->Send(run) || !stream->Receive(&empty)) {
    return absl::CancelledError("the follower is gone");
  }
  // Then one that was here before cannot take over: it catches up like a new one, and nobody waits for it.
  if (IsIn(keeper_->chain(), replica) || followers_->IsRequired(replica)) {
    PSGD_RETURN_IF_ERROR(keeper_->TakeOut(replica));
  }
  std::lock_guard lock(mutex_);
  auto log = std::make_shared<FollowerLog>(shipped_records_);
  followers_->Connect(replica, ask.address(), followers_->coordinator_log(), log);
  if (core_.model() != nullptr) {
    const CoordinatorRecord record = Record();
    PSGD_RETURN_IF_ERROR(ShipRecord(&record, /*wait=*/false));
  }
  return log;
}

absl::StatusOr<std::shared_ptr<FollowerLog>> ParameterServer::BeginShardLog(
    const FollowerSays::Ask& ask, FollowerStream* stream) {
  std::shared_ptr<FollowerLog> log;
  LogPart alive;
  alive.mutable_alive();
  while (true) {
    const auto start = local_->Find(ask.shard())->BeginFollower([&](uint64_t last) {
      log = std::make_shared<FollowerLog>(last);
      followers_->Connect(ask.replica(), ask.address(), ask.shard(), log);
    });
    if (start.ok()) {
      const bool sent = SendImage(start->image, stream) &&
                        SendEntries(start->image.record.entry() + 1, start->entries, stream);
      if (!sent) log->Close();
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
  uint32_t replica = ask.replica();
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::UnavailableError("the server ends");
    if (followers_->Status().size() >= kMostFollowers) {
      return absl::ResourceExhaustedError("this run has too many followers");
    }
    if (replica == options_.replica) {
      return absl::InvalidArgumentError(
          absl::StrCat("server ", replica, " leads; a follower has another number (--replica)"));
    }
    if (replica == 0) replica = next_replica_;
    next_replica_ = std::max(next_replica_, replica + 1);
  }
  const bool coordinator = ask.has_coordinator();
  if (!coordinator && (!ask.has_shard() || local_->Find(ask.shard()) == nullptr)) {
    return absl::InvalidArgumentError("there is no such log");
  }
  PSGD_ASSIGN_OR_RETURN(const auto log, coordinator ? BeginCoordinatorLog(ask, replica, stream)
                                                    : BeginShardLog(ask, stream));
  std::thread reader([&] {
    FollowerSays says;
    while (stream->Receive(&says)) log->Written(says.written());
    log->Close();
  });
  LogPart alive;
  alive.mutable_alive();
  while (!log->closed() && !stream->gone()) {
    const auto part = log->Next(AlivePeriod(options_.config));
    if (!stream->Send(part == nullptr ? alive : *part)) break;
  }
  stream->End();
  reader.join();
  followers_->Disconnect(replica, coordinator ? followers_->coordinator_log() : ask.shard(),
                         log.get());
  return absl::OkStatus();
}

}  // namespace psgd
