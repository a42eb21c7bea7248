// The part of ParameterServer that leads followers: docs/durability.md.
#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "net/wire_format.h"
#include "server/checkpoint_database.h"
#include "server/journal_format.h"
#include "server/leader_link.h"
#include "server/parameter_server.h"

namespace psgd {
namespace {

constexpr Duration kRetry = std::chrono::milliseconds(20);
constexpr Duration kLookPatience = std::chrono::milliseconds(200);
constexpr Duration kFirstLookPatience = std::chrono::seconds(2);
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

Chain TakenOver(const Chain& chain, uint32_t replica) {
  Chain next;
  next.set_epoch(chain.epoch() + 1);
  for (const Chain::Member& member : chain.members()) {
    if (member.replica() == replica || next.members_size() > 0) *next.add_members() = member;
  }
  return next;
}

bool IsIn(const Chain& chain, uint32_t replica) {
  return std::any_of(chain.members().begin(), chain.members().end(),
                     [&](const Chain::Member& member) { return member.replica() == replica; });
}

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::TakeOver(
    ParameterServerOptions options, FollowedRun followed) {
  CoordinatorRecord& record = followed.record;
  *record.mutable_chain() = TakenOver(record.chain(), followed.replica);
  options.replica = followed.replica;
  options.control_port = followed.service->port();
  PSGD_ASSIGN_OR_RETURN(auto server, FromRecord(std::move(options), std::move(record),
                                                std::move(followed.store),
                                                std::move(followed.followers)));
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

void ParameterServer::RestoreChain(const Chain& chain) {
  if (options_.config.durability().acknowledge() != DurabilityConfig::REPLICATED) return;
  if (followers_ == nullptr) {
    followers_ = std::make_shared<FollowerSet>(options_.config.cluster().shards(),
                                               Milliseconds(options_.config.durability().takeover()));
  }
  chain_ = chain;
  gathered_ = chain_.members_size() > 0;
  for (const Chain::Member& member : chain_.members()) {
    next_replica_ = std::max(next_replica_, member.replica() + 1);
    if (member.replica() != options_.replica) {
      followers_->Require(member.replica(), member.address());
    }
  }
}

absl::Status ParameterServer::LeadAgain(const ParameterServerOptions& options,
                                        CoordinatorRecord* record) {
  Chain* const chain = record->mutable_chain();
  if (chain->members_size() == 0) return absl::OkStatus();
  if (!IsIn(*chain, options.replica)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "server ", options.replica, " was not in the run's chain, so others may know more; recover ",
        "the last one of it"));
  }
  for (const Chain::Member& member : chain->members()) {
    if (member.replica() == options.replica) continue;
    const auto other =
        WhoLeads(member.address(), options.credentials.get(), kFirstLookPatience);
    if (!other.ok() || !other->leads() || other->chain().epoch() < chain->epoch()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "server ", member.replica(), " at ", member.address(), " leads this run by now; join it with "
        "ps-server --follow ", member.address()));
  }
  if (chain->members(0).replica() != options.replica) *chain = TakenOver(*chain, options.replica);
  return absl::OkStatus();
}

bool ParameterServer::WaitsForFollowers(std::string* reason) const {
  // Once all were there, those that are left have to do.
  if (followers_ == nullptr || gathered_ || core_.over()) return false;
  *reason = absl::StrCat(
      "waiting for ", options_.config.durability().followers() + 1 - chain_.members_size(),
      " more followers (durability.followers): ps-server --follow ", control_address_);
  return true;
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

Chain ParameterServer::ChainFor(const WorkerKey& worker) {
  Chain chain = chain_;
  for (const Chain::Member& member : followers_->Candidates()) *chain.add_members() = member;
  Introduced& introduced = introduced_[{worker.worker(), worker.incarnation()}];
  // It asks again, so the last answer came in.
  introduced.known = std::move(introduced.told);
  introduced.told.clear();
  for (const Chain::Member& member : chain.members()) introduced.told.insert(member.address());
  return chain;
}

bool ParameterServer::EveryWorkerKnows(const std::string& address) const {
  const StatusReply status = core_.Status(SteadyNow());
  return std::all_of(status.workers().begin(), status.workers().end(), [&](const WorkerStatus& worker) {
    if (!worker.live()) return true;
    const auto at = introduced_.find({worker.key().worker(), worker.key().incarnation()});
    return at != introduced_.end() && at->second.known.contains(address);
  });
}

void ParameterServer::TakeInFollowers(Effects* effects) {
  if (followers_ == nullptr) return;
  for (const Chain::Member& member : followers_->Ready()) {
    // A worker that has not heard of it would not find it after it took over.
    if (!EveryWorkerKnows(member.address())) continue;
    followers_->Require(member.replica(), member.address());
    *chain_.add_members() = member;
    chain_.set_epoch(chain_.epoch() + 1);
    effects->news.push_back(absl::StrCat("server ", member.replica(), " at ", member.address(),
                                         " follows: acknowledgements wait for it, and it would take over"));
  }
  gathered_ = gathered_ || chain_.members_size() > options_.config.durability().followers();
}

void ParameterServer::TakeOut(uint32_t replica) {
  Chain next;
  next.set_epoch(chain_.epoch() + 1);
  for (const Chain::Member& member : chain_.members()) {
    if (member.replica() != replica) *next.add_members() = member;
  }
  chain_ = next;
  followers_->Forget(replica);
}

void ParameterServer::LookForAnotherLeader() {
  if (followers_ == nullptr) return;
  for (const Chain::Member& member : followers_->Missing()) {
    const auto other = WhoLeads(member.address(), options_.credentials.get(), kLookPatience);
    if (!other.ok() || !other->leads()) continue;
    std::lock_guard lock(mutex_);
    if (other->chain().epoch() <= chain_.epoch() || !deposed_by_.empty()) continue;
    deposed_by_ = member.address();
    options_.log->error("server {} at {} leads this run by now; this one ends", member.replica(),
                        member.address());
    changed_.notify_all();
  }
}

Chain ParameterServer::chain() const {
  std::lock_guard lock(mutex_);
  return chain_;
}

std::string ParameterServer::deposed_by() const {
  std::lock_guard lock(mutex_);
  return deposed_by_;
}

absl::StatusOr<DropFollowerReply> ParameterServer::DropFollower(const DropFollowerRequest& request) {
  std::lock_guard lock(mutex_);
  if (!IsIn(chain_, request.replica()) || request.replica() == options_.replica) {
    return absl::NotFoundError(absl::StrCat("server ", request.replica(),
                                            " is not one of this run's followers; ps-ctl status "
                                            "shows them"));
  }
  TakeOut(request.replica());
  Effects effects;
  effects.news.push_back(absl::StrCat("goes on without follower ", request.replica(), ", as asked"));
  PSGD_RETURN_IF_ERROR(Apply(std::move(effects)));
  DropFollowerReply reply;
  *reply.mutable_chain() = chain_;
  return reply;
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
  std::lock_guard lock(mutex_);
  // Then one that was here before cannot take over: it catches up like a new one, and nobody waits for it.
  if (IsIn(chain_, replica)) TakeOut(replica);
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
    std::this_thread::sleep_for(kRetry);
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
