#include "server/cluster/server_core.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

constexpr Duration kReadRetry = std::chrono::milliseconds(100);
constexpr int kKeepsPerPatience = 4;

// The number of the server with that identity; 0: the run does not know it.
uint32_t NumberOf(const RunRecord& record, uint64_t identity) {
  for (const RunServer& server : record.servers()) {
    if (server.identity() == identity) return server.server();
  }
  return 0;
}

std::string AddressOf(const RunRecord& record, uint32_t server) {
  for (const RunServer& other : record.servers()) {
    if (other.server() == server) return other.address();
  }
  return "";
}

}  // namespace

ServerCore::ServerCore(ServerCoreOptions options)
    : options_(std::move(options)),
      holder_(options_.self, options_.run_id, options_.on_disk, options_.leader.patience),
      begins_(options_.begins),
      was_part_(options_.was_part) {}

void ServerCore::Start(Time now, ServerEffects* effects) {
  heard_ = now;
  if (!options_.may_lead) return;
  store_busy_ = true;
  if (!begins_) {
    effects->push_back(effect::ReadStore{});
    return;
  }
  const auto shards = static_cast<uint32_t>(options_.leader.coordinator.config.cluster().shards());
  taking_over_ = FirstRecord(options_.run_id, options_.self, shards);
  taking_over_.set_resumes_from(ResumesFrom());
  effects->push_back(
      effect::WriteStore{++writes_, 0, taking_over_, nullptr, RunStore::As::kSuccessor});
}

uint64_t ServerCore::ResumesFrom() const {
  const auto& resume = options_.leader.coordinator.resume;
  return resume ? resume->checkpoint : 0;
}

void ServerCore::OnStoreRead(const absl::StatusOr<RunStore::Held>& held, const RunPlan* plan,
                             Time now, ServerEffects* effects) {
  store_busy_ = false;
  read_again_ = now + kReadRetry;
  if (leader_ != nullptr || ended_) return;
  if (!held.ok()) return TellTrouble(held.status(), effects);
  // A store that is full can be read. So the trouble of a write lasts until the next write.
  std::string trouble = std::exchange(store_trouble_, "");
  if (held->revision == 0 || held->record.over()) {
    // A server of the run learns here that the run is over. Any other server waits for the run to
    // begin.
    if (!was_part_) return;
    const bool over = held->revision != 0 || held->ended == holder_.run_id();
    return Step(over
                    ? absl::OkStatus()
                    : absl::DataLossError("the run's record is gone from the run store: were its "
                                          "keys deleted, or does etcd hold other data than before? "
                                          "Go on from the last checkpoint with ps-run --resume"),
                effects);
  }
  const uint32_t number = NumberOf(held->record, holder_.self().identity());
  was_part_ = was_part_ || number != 0;
  leader_address_ = AddressOf(held->record, held->record.leader());
  if (number == 0 || (held->led && held->record.leader() != number)) return;
  // Otherwise training would begin from initial weights.
  if (!held->record.has_plan() && held->record.resumes_from() != ResumesFrom()) {
    const std::string checkpoint = absl::StrCat("checkpoint ", held->record.resumes_from());
    if (held->record.leader() != number) {
      store_trouble_ = std::move(trouble);
      return TellTrouble(UnavailableError("the run begins from ", checkpoint, ", and only server ",
                                          held->record.leader(), ", which is silent, has that"),
                         effects);
    }
    const std::string& name = options_.leader.coordinator.config.name();
    return Step(FailedPreconditionError("this server ended before training began from ", checkpoint,
                                        ". Delete the run's record (etcdctl del --prefix /psgd/",
                                        name, "/), and start the run again with --resume"),
                effects);
  }
  holder_.SetNumber(number);
  // A leader with a live lease is not replaced just because this server cannot hear it. If several
  // servers try to take over, the store lets one win.
  replaced_ = held->record.epoch() == holder_.run_epoch() ? held->record.leader() : 0;
  taking_over_ = TakenOver(held->record, holder_.self());
  plan_ = plan == nullptr ? nullptr : std::make_shared<RunPlan>(*plan);
  store_trouble_ = std::move(trouble);
  store_busy_ = true;
  effects->push_back(effect::WriteStore{++writes_, held->revision, taking_over_, nullptr,
                                        RunStore::As::kSuccessor});
}

void ServerCore::OnStoreWritten(uint64_t number, const absl::StatusOr<int64_t>& revision, Time now,
                                ServerEffects* effects) {
  if (number != writes_) return;  // the write is from an earlier leadership
  if (leader_ != nullptr) {
    leader_->OnStoreWritten(revision, now, effects);
    return Settle(now, effects);
  }
  store_busy_ = false;
  read_again_ = now + kReadRetry;
  if (!revision.ok()) {
    if (begins_ && absl::IsAborted(revision.status())) {
      Step(absl::AlreadyExistsError("the run store has a run of that name"), effects);
    }
    if (absl::IsOutOfRange(revision.status())) return Step(revision.status(), effects);
    return TellTrouble(revision.status(), effects);
  }
  store_trouble_.clear();
  Lead(*revision, std::move(taking_over_), plan_.get(), now, effects);
}

void ServerCore::TellTrouble(const absl::Status& status, ServerEffects* effects) {
  // Losing a race for the lead is no trouble.
  const std::string trouble =
      status.ok() || absl::IsAborted(status) ? "" : std::string(status.message());
  if (!trouble.empty() && trouble != store_trouble_) {
    effects->push_back(effect::News{absl::StrCat("the run store: ", trouble)});
  }
  store_trouble_ = trouble;
}

void ServerCore::Lead(int64_t revision, RunRecord record, const RunPlan* plan, Time now,
                      ServerEffects* effects) {
  RunLeaderOptions options = options_.leader;
  options.server = record.leader();
  options.replaced = replaced_;
  const uint64_t epoch = record.epoch();
  auto leader = RunLeader::Make(std::move(options), revision, std::move(record), plan, now);
  if (!leader.ok()) return Step(leader.status(), effects);
  leader_ = *std::move(leader);
  was_part_ = true;
  for (const auto& [worker, pass] : leader_->passes()) effects->push_back(effect::Admit{pass});
  begins_ = false;
  leader_address_ = holder_.self().address();
  keep_again_ = now;
  effects->push_back(effect::News{
      absl::StrCat("server ", leader_->stored().leader(), " leads the run, under epoch ", epoch)});
  holder_.OnConnected(effects, now);
  for (const auto& [shard, checkpoint] : holder_.cuts()) GiveCut(shard, checkpoint, effects);
  Settle(now, effects);
}

void ServerCore::OnLeaseKept(uint64_t epoch, const absl::Status& kept, ServerEffects* effects) {
  // The answer may be late, and the store counts the lease from before it.
  const std::optional<Time> asked = std::exchange(keeps_since_, std::nullopt);
  if (!LeadsUnder(epoch)) return;
  if (kept.ok() && asked) leader_->OnConfirmed(*asked);
  if (absl::IsAborted(kept)) Step(kept, effects);
}

// Stops leading the run, or ends this server's part in it.
void ServerCore::Step(absl::Status why, ServerEffects* effects) {
  ended_ = !absl::IsAborted(why);
  if (leader_ != nullptr && ended_ && !why.ok()) {
    for (const uint64_t link : leader_->links()) effects->push_back(effect::Refuse{link, why});
  }
  leader_.reset();
  ++writes_;  // answers to earlier writes are ignored
  if (ended_) {
    effects->push_back(effect::End{why});
  } else {
    effects->push_back(effect::News{"another server leads the run by now"});
  }
}

void ServerCore::OnConnected(Time now, ServerEffects* effects) {
  heard_ = now;
  holder_.OnConnected(effects, now);
  // The leader may be a new one, or may have been restarted.
  for (const auto& [shard, checkpoint] : holder_.cuts()) GiveCut(shard, checkpoint, effects);
  Settle(now, effects);
}

void ServerCore::OnAssignment(const Assignment& assignment, Time now, ServerEffects* effects) {
  heard_ = now;
  holder_.OnAssignment(assignment, effects);
  was_part_ = true;
  if (assignment.over()) Step(absl::OkStatus(), effects);
}

void ServerCore::OnRefused(const absl::Status& why, ServerEffects* effects) { Step(why, effects); }

void ServerCore::OnCopies(std::span<const CopyState> copies, Time now, ServerEffects* effects) {
  for (const CopyState& copy : copies) holder_.OnCopy(copy);
  holder_.Tick(now, effects);
  Settle(now, effects);
}

void ServerCore::OnDropped(uint32_t shard, Time now, ServerEffects* effects) {
  holder_.OnDropped(shard, effects);
  holder_.Tick(now, effects);
  Settle(now, effects);
}

bool ServerCore::OnCut(uint32_t shard, uint64_t checkpoint, ServerEffects* effects) {
  if (!holder_.OnCut(shard, checkpoint)) return false;
  GiveCut(shard, checkpoint, effects);
  return true;
}

void ServerCore::GiveCut(uint32_t shard, uint64_t checkpoint, ServerEffects* effects) {
  if (leader_ == nullptr) {
    effects->push_back(effect::SendPart{checkpoint, shard});
  } else {
    leader_->OnPartCame(checkpoint, shard, effects);
  }
}

bool ServerCore::OnPartCame(uint64_t checkpoint, uint32_t shard, ServerEffects* effects) {
  return leader_ != nullptr && leader_->OnPartCame(checkpoint, shard, effects);
}

void ServerCore::OnState(uint64_t link, const ServerState& state, Time now,
                         ServerEffects* effects) {
  if (leader_ == nullptr) {
    effects->push_back(effect::Refuse{link, absl::UnavailableError(leader_address_)});
    return;
  }
  leader_->OnState(link, state, now, effects);
  Settle(now, effects);
}

void ServerCore::OnLinkGone(uint64_t link, Time now, ServerEffects* effects) {
  if (leader_ != nullptr) leader_->OnLinkGone(link, now);
  Settle(now, effects);
}

void ServerCore::OnOrderDone(uint32_t shard, uint64_t epoch, uint64_t number,
                             const absl::Status& status, Time now, ServerEffects* effects) {
  if (leader_ != nullptr) leader_->OnOrderDone(shard, epoch, number, status, now, effects);
  Settle(now, effects);
}

bool ServerCore::OnPart(const effect::WritePart& part, const absl::StatusOr<ShardReceipt>& receipt,
                        Time now, ServerEffects* effects) {
  const bool counts = LeadsUnder(part.run_epoch);
  if (counts) leader_->OnPart(part.checkpoint, part.shard, receipt, now, effects);
  Settle(now, effects);
  return counts && receipt.ok();
}

void ServerCore::OnSealed(uint64_t run_epoch, uint64_t checkpoint,
                          const absl::StatusOr<SealedCheckpoint>& sealed, Time now,
                          ServerEffects* effects) {
  if (LeadsUnder(run_epoch)) leader_->OnSealed(checkpoint, sealed, now, effects);
  Settle(now, effects);
}

void ServerCore::OnQuarantined(const QuarantinedWorker& worker, Time now, ServerEffects* effects) {
  if (leader_ != nullptr) leader_->OnQuarantined(worker, now, effects);
  Settle(now, effects);
}

void ServerCore::OnRequest(uint64_t request, const ControlRequest& asked, Time now,
                           ServerEffects* effects) {
  if (leader_ == nullptr) {
    effects->push_back(effect::Answer{
        request, UnavailableError(
                     "this server does not lead the run; ",
                     leader_address_.empty() ? "nobody is known to" : leader_address_ + " does")});
    return;
  }
  leader_->OnRequest(request, asked, now, effects);
  Settle(now, effects);
}

void ServerCore::Close(Time now, ServerEffects* effects) {
  leader_->Close(now, effects);
  Settle(now, effects);
}

void ServerCore::Tick(Time now, ServerEffects* effects) {
  if (ended_) return;
  holder_.Tick(now, effects);
  if (leader_ != nullptr) {
    leader_->Tick(now, effects);
    if (now >= keep_again_ && !keeps_since_) {
      keeps_since_ = now;
      keep_again_ = now + options_.leader.patience / kKeepsPerPatience;
      effects->push_back(effect::KeepLease{leader_->stored().epoch()});
    }
  } else if (begins_ && options_.may_lead && !store_busy_ && now >= read_again_) {
    Start(now, effects);
  } else if (options_.may_lead && !store_busy_ && now >= read_again_ &&
             now >= heard_ + options_.leader.patience) {
    store_busy_ = true;
    effects->push_back(effect::ReadStore{});
  }
  Settle(now, effects);
}

void ServerCore::Settle(Time now, ServerEffects* effects) {
  // A delivered message causes more effects, which are appended.
  for (size_t i = 0; i < effects->size() && leader_ != nullptr; ++i) {
    if (const auto* says = std::get_if<effect::SendState>(&(*effects)[i])) {
      const ServerState state = says->state;
      effects->erase(effects->begin() + static_cast<std::ptrdiff_t>(i--));
      leader_->OnState(kOwnLink, state, now, effects);
    } else if (auto* write = std::get_if<effect::WriteStore>(&(*effects)[i]);
               write != nullptr && write->number == 0) {
      write->number = ++writes_;
    } else if (const auto* told = std::get_if<effect::SendAssignment>(&(*effects)[i]);
               told != nullptr && told->link == kOwnLink) {
      const Assignment assignment = told->assignment;
      effects->erase(effects->begin() + static_cast<std::ptrdiff_t>(i--));
      heard_ = now;
      holder_.OnAssignment(assignment, effects);
    }
  }
  if (leader_ != nullptr && !leader_->deposed().ok()) Step(leader_->deposed(), effects);
}

}  // namespace psgd
