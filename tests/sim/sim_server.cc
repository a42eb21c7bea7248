#include "tests/sim/sim_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/has_journal.h"
#include "server/shard/shard_order.h"
#include "tests/sim/run_world.h"

namespace psgd::sim {
namespace {

// The chance that a server which is to die soon dies right after it has taken in a message.
constexpr double kDiesBeforeItWrites = 0.4;
// The chance that a server dies while another copy's image takes the place of what it had, where
// the run has deaths.
constexpr double kDiesTakingAnImage = 0.1;
constexpr int64_t kMostOperations = 5;  // on the disk, for an image that cannot be written

std::string NoPart(uint64_t checkpoint, uint32_t shard) {
  return absl::StrCat("the part of shard ", shard, " of checkpoint ", checkpoint, " is not here");
}

}  // namespace

SimServer::SimServer(RunWorld* world, uint32_t machine)
    : world_(world),
      machine_(machine),
      chance_(world->scenario().network_seed, 300 + machine),
      disk_(world->scenario(), &chance_),
      streams_(world, this, &chance_) {}

const CopyCore* SimServer::copy(uint32_t shard) const {
  const auto found = copies_.find(shard);
  return found == copies_.end() ? nullptr : found->second.get();
}

CopyOptions SimServer::OptionsOf(uint32_t shard) {
  CopyOptions options;
  options.shard = shard;
  options.silence = kServerSilence;
  options.window = world_->scenario().window_bytes;
  options.kept = std::max<size_t>(world_->scenario().given_bytes, 20u << 10);
  options.place = std::make_shared<CopyPlace>(disk_.PlaceOf(shard));
  return options;
}

void SimServer::Boot(bool begins) {
  ++life_;
  const bool earlier = identity_ != 0;
  if (!earlier) identity_ = static_cast<uint64_t>(chance_.Between(1, INT64_MAX - 1));
  ServerCoreOptions options;
  options.self.set_name(absl::StrCat("m", machine_));
  options.self.set_address(absl::StrCat(machine_));
  options.self.set_identity(identity_);
  options.run_id = "run";
  options.begins = begins;
  // Servers in production start to join only once the run is there.
  options.was_part = !begins && earlier && world_->store().revision() > 0;
  options.may_lead = world_->faults().shared_store || machine_ == 0;
  options.leader.coordinator = world_->CoordinatorOf(begins);
  options.leader.copies = world_->faults().copies;
  options.leader.servers = static_cast<size_t>(world_->faults().machines);
  options.leader.patience = kServerSilence;
  for (uint32_t s = 0; s < static_cast<uint32_t>(world_->scenario().config.cluster().shards());
       ++s) {
    CopyOptions copy = OptionsOf(s);
    auto shard = copy.place->Recover();
    if (!shard.ok()) return CannotStart(s, shard.status());
    if (*shard == nullptr) continue;
    options.on_disk.insert(s);
    copies_[s] = std::make_unique<CopyCore>(std::move(copy), *std::move(shard));
  }
  lost_power_ = false;
  core_ = std::make_unique<ServerCore>(std::move(options));
  Feed([this](Time now, ServerEffects* effects) { core_->Start(now, effects); });
}

void SimServer::CannotStart(uint32_t shard, const absl::Status& why) {
  copies_.clear();
  const bool synced =
      world_->scenario().config.durability().acknowledge() == DurabilityConfig::FSYNC;
  if (lost_power_ && !synced) {
    // Other copies have what it lost, so another server, with an empty disk, takes its place.
    EmptyDisk();
    return Boot(false);
  }
  world_->oracle().Breach(absl::StrCat("machine ", machine_, " does not start: shard ", shard,
                                       " cannot go on from its journal: ", why.ToString()));
}

void SimServer::EmptyDisk() {
  disk_.Clear();
  lost_power_ = false;
  identity_ = 0;
}

void SimServer::Die(bool power, bool lose_disk) {
  // What it holds in the end is looked at.
  if (core_ == nullptr || world_->store().record().over()) return;
  ++world_->outcome().deaths;
  world_->Died(machine_);
  if (world_->tracing()) {
    world_->Note(absl::StrCat("machine ", machine_, power ? " loses power" : " dies",
                              lose_disk ? ", its disk is empty" : ""));
  }
  ++life_;
  dies_in_ = -1;
  disk_.DontDie();
  lost_power_ = lost_power_ || power;
  awake_at_ = {};
  to_do_.clear();
  for (auto& [shard, copy] : copies_) {
    ShardDisk* const place = disk_.Find(shard);
    if (place == nullptr) continue;
    // Written, if perhaps not synced, and nobody heard of it any more.
    CopyCore::Effects unheard;
    // The fault shows only after such a write.
    const bool writes = world_->scenario().disk_fault == DiskFault::kForgetsToSyncWhatItFinds;
    place->dies_writing = chance_.Happens(0.5) || writes;
    if (chance_.Happens(0.5) || writes) copy->Commit(world_->queue().now(), &unheard);
    place->dies_writing = false;
  }
  copies_.clear();
  streams_.Clear();
  cuts_ = HeldCuts();
  unsealed_ = UnsealedCheckpoint();
  const uint64_t life = life_;
  core_.reset();
  BreakLink();
  for (const auto& [link, machine] : std::exchange(down_, {})) {
    world_->queue().After(chance_.Between(Duration(0), kServerSilence / 2), [=, this] {
      SimServer& other = world_->machine(machine);
      if (other.up_.id == link) other.up_ = {};
    });
  }
  disk_.Crash(power);
  if (lose_disk) EmptyDisk();
  const Duration down =
      chance_.Between(std::chrono::milliseconds(5), std::chrono::milliseconds(1500));
  world_->queue().After(down, [this, life] {
    if (life == life_ && core_ == nullptr) Boot(machine_ == 0 && world_->store().revision() == 0);
  });
}

bool SimServer::steady() const {
  return up() && world_->queue().now() >= awake_at_ + kServerSilence;
}

void SimServer::Leave() {
  if (core_ != nullptr) core_->Leave();
}

void SimServer::WhenAwake(std::function<void()> action) {
  if (core_ == nullptr) return;
  if (world_->queue().now() >= awake_at_) return action();
  world_->queue().At(awake_at_, [this, action = std::move(action), life = life_] {
    if (life == life_) WhenAwake(action);
  });
}

void SimServer::Feed(const Input& input) {
  WhenAwake([this, input] {
    if (core_ == nullptr || over_) return;
    ServerEffects effects;
    const Time now = world_->queue().now();
    input(now, &effects);
    // What the run leaves behind is saved at once.
    if (core_->leader() != nullptr && core_->leader()->trained() && !core_->leader()->closed())
      core_->Close(now, &effects);
    CarryOut(std::move(effects));
  });
}

void SimServer::CarryOut(ServerEffects effects) {
  to_do_.push_back(std::move(effects));
  if (busy_) return;
  busy_ = true;
  const uint64_t life = life_;
  while (!to_do_.empty() && life == life_) {
    ServerEffects next = std::move(to_do_.front());
    to_do_.pop_front();
    for (ServerEffect& effect : next) {
      if (dies_in_ >= 0 && dies_in_-- == 0) {
        Die(false, false);
        if (life != life_) break;
      }
      std::visit([this](auto& what) { Do(what); }, effect);
      if (life != life_) break;
    }
  }
  busy_ = false;
  if (core_ != nullptr && core_->leader() == nullptr) cuts_.WritesNothing();
}

void SimServer::Do(const effect::HaveCopy& have) {
  if (world_->tracing())
    world_->Note(absl::StrCat("machine ", machine_, " is to have ", have.copy.ShortDebugString()));
  Have(have.copy);
}

void SimServer::Do(const effect::DropCopy& drop) {
  const uint64_t life = life_;
  // It may take its time, and the server may die before the disk is empty.
  world_->queue().After(chance_.Between(Duration(0), std::chrono::milliseconds(60)),
                        [this, shard = drop.shard, life] {
                          if (life != life_) return;
                          WhenAwake([this, shard] {
                            copies_.erase(shard);
                            streams_.Drop(shard);
                            CopyPlace(disk_.PlaceOf(shard)).Drop();
                            Feed([this, shard](Time now, ServerEffects* effects) {
                              cuts_.Dropped(shard);
                              core_->OnDropped(shard, now, effects);
                            });
                          });
                        });
}

void SimServer::Do(const effect::CheckpointDone& done) {
  for (auto& [shard, copy] : copies_) copy->CheckpointDone(done.checkpoint);
  cuts_.Done(done.checkpoint);
}

void SimServer::Do(effect::SendState& state) {
  SendUp([id = up_.id, says = std::move(state.state)](SimServer* leader) {
    leader->Feed([leader, id, says](Time now, ServerEffects* effects) {
      leader->core_->OnState(id, says, now, effects);
    });
  });
}

void SimServer::Do(effect::SendAssignment& assign) {
  SendDown(assign.link, [assignment = std::move(assign.assignment)](SimServer* to) {
    to->Feed([to, assignment](Time now, ServerEffects* effects) {
      to->core_->OnAssignment(assignment, now, effects);
    });
  });
}

void SimServer::Do(const effect::SendOrder& order) {
  world_->Ordered(order.order, core_->leader() == nullptr
                                   ? nullptr
                                   : core_->leader()->coordinator().placement());
  if (order.order.link == kOwnLink) {
    Execute(order.order);
  } else {
    SendDown(order.order.link, [to_do = order.order](SimServer* to) {
      to->WhenAwake([to, to_do] { to->Execute(to_do); });
    });
  }
}

void SimServer::Do(const effect::Refuse& refuse) {
  const auto at = down_.find(refuse.link);
  if (at == down_.end()) return;
  SimServer* const to = &world_->machine(at->second);
  down_.erase(at);
  if (world_->tracing()) {
    world_->Note(absl::StrCat("machine ", machine_, " refuses machine ", to->machine_, ": ",
                              refuse.why.ToString()));
  }
  if (to->up_.id == refuse.link) to->up_ = {};
  if (absl::IsUnavailable(refuse.why)) return;  // it asks another one
  to->Feed(
      [to, why = refuse.why](Time, ServerEffects* effects) { to->core_->OnRefused(why, effects); });
}

void SimServer::Do(const effect::ReadStore&) {
  const uint64_t life = life_;
  world_->store().Read([=, this](auto held, auto plan) {
    if (life != life_) return;
    Feed([=, this](Time now, ServerEffects* effects) {
      core_->OnStoreRead(held, plan.get(), now, effects);
    });
  });
}

void SimServer::Do(effect::WriteStore& write) {
  const CopyBug bug = world_->faults().bug;
  const uint64_t life = life_;
  CoordinatorRecord* const record = write.record.mutable_coordinator();
  if (bug == CopyBug::kForgetOrders) record->clear_orders();
  if (bug == CopyBug::kForgetMembers && record->members_size() > 0)
    record->mutable_members()->RemoveLast();
  if (bug == CopyBug::kForgetCheckpoint) record->clear_under_way();
  if (bug == CopyBug::kForgetResume) write.record.clear_resumes_from();
  if (bug == CopyBug::kForgetLedger) record->mutable_ledger()->clear_dealt();
  if (bug == CopyBug::kDealAgain && record->has_ledger()) {
    auto* const remaining = record->mutable_ledger()->mutable_position()->mutable_remaining();
    remaining->Clear();
    remaining->Add()->set_count(world_->scenario().batches_per_epoch);
  }
  if (bug == CopyBug::kSameEpoch && write.record.has_plan()) {
    for (int s = 0; s < write.record.shards_size(); ++s) {
      write.record.mutable_shards(s)->set_epoch(1);
    }
  }
  const auto tell = [=, this, number = write.number](const absl::StatusOr<int64_t>& revision) {
    if (life != life_) return;
    absl::StatusOr<int64_t> said = revision;
    if (bug == CopyBug::kIgnoreStore && absl::IsAborted(said.status()) &&
        core_->leader() != nullptr) {
      said = core_->leader()->revision();
    }
    Feed([=, this](Time now, ServerEffects* effects) {
      core_->OnStoreWritten(number, said, now, effects);
    });
  };
  if (bug == CopyBug::kTellUnstored && core_->leader() != nullptr && write.record.has_plan() &&
      write.plan == nullptr) {
    // It says that it stored the record, and does so later, if it lives.
    const int64_t revision = write.revision;
    world_->queue().After(std::chrono::milliseconds(300), [=, this, record = write.record] {
      if (life == life_)
        world_->store().Write(world_->store().revision(), record, nullptr, RunStore::As::kLeader,
                              [](auto) {});
    });
    world_->queue().After(std::chrono::milliseconds(1), [=] { tell(revision); });
    return;
  }
  world_->store().Write(write.revision, std::move(write.record), std::move(write.plan), write.as,
                        tell);
}

void SimServer::Do(const effect::KeepLease& keep) {
  const CopyBug bug = world_->faults().bug;
  const uint64_t life = life_;
  world_->store().Keep(keep.epoch, [=, this, epoch = keep.epoch](absl::Status kept) {
    if (life != life_ || (bug == CopyBug::kIgnoreStore && absl::IsAborted(kept))) return;
    Feed([=, this](Time, ServerEffects* effects) { core_->OnLeaseKept(epoch, kept, effects); });
  });
}

void SimServer::Do(effect::Answer& answer) {
  world_->AnswerRequest(answer.request, std::move(answer.reply));
}

void SimServer::Do(const effect::SendPart& made) {
  const std::shared_ptr<const ShardCut> cut = cuts_.Find(made.checkpoint, made.shard);
  if (cut == nullptr) return world_->oracle().Breach(NoPart(made.checkpoint, made.shard));
  SendUp([shard = made.shard, cut](SimServer* leader) {
    leader->Feed([leader, shard, cut](Time, ServerEffects* effects) {
      if (leader->core_->OnPartCame(cut->checkpoint, shard, effects))
        leader->cuts_.Came(shard, cut);
    });
  });
}

void SimServer::Do(const effect::WritePart& part) {
  world_->PartWritten(part.shard, cuts_.Find(part.checkpoint, part.shard));
  WritePart(part);
}

void SimServer::Do(effect::SealCheckpoint& seal) {
  const uint64_t life = life_;
  const uint64_t id = seal.manifest.id();
  const uint64_t epoch = seal.run_epoch;
  for (const ShardReceipt& receipt : seal.manifest.shards()) {
    if (!disk_.HasPart(id, receipt.shard()))
      return world_->oracle().Breach(NoPart(id, receipt.shard()));
  }
  world_->queue().After(chance_.Between(Duration(0), std::chrono::milliseconds(20)),
                        [=, this, manifest = std::move(seal.manifest)] {
                          if (life != life_) return;
                          SealedCheckpoint written;
                          written.info.set_id(id);
                          absl::StatusOr<SealedCheckpoint> sealed = written;
                          if (chance_.Happens(world_->scenario().failed_checkpoints))
                            sealed = absl::ResourceExhaustedError("disk full");
                          if (sealed.ok()) world_->Sealed(manifest);
                          Feed([=, this](Time now, ServerEffects* effects) {
                            core_->OnSealed(epoch, id, sealed, now, effects);
                          });
                        });
}

void SimServer::Do(const effect::DiscardParts& parts) {
  if (unsealed_.Discard(parts)) disk_.DiscardCheckpoint(parts.checkpoint);
}

void SimServer::Do(const effect::News& news) {
  if (news.text.find("in place of") != std::string::npos) ++world_->outcome().promotions;
  if (news.text.find(" moved from server ") != std::string::npos) ++world_->outcome().moves;
  if (news.text.find("leads the run, under") != std::string::npos) ++world_->outcome().takeovers;
  if (news.text.find("is out: quarantined") != std::string::npos) ++world_->outcome().quarantined;
  if (world_->tracing()) world_->Note(absl::StrCat("machine ", machine_, ": ", news.text));
}

void SimServer::Do(const effect::End& end) {
  over_ = true;
  if (end.why.ok() || end.why.message() == "the run is over") return;
  const RunRecord& record = world_->store().record();
  if (record.resumes_from() > 0 && !record.has_plan() &&
      absl::StartsWith(end.why.message(), "this server ended before training began"))
    return world_->MustBeginAgain();
  world_->oracle().Breach(absl::StrCat("machine ", machine_, " ends: ", end.why.ToString()));
}

void SimServer::Have(const AssignedCopy& assigned) {
  const uint32_t shard = assigned.shard();
  std::unique_ptr<CopyCore>& copy = copies_[shard];
  if (copy == nullptr) copy = std::make_unique<CopyCore>(OptionsOf(shard), nullptr);
  AssignedCopy heard = assigned;
  if (world_->faults().bug == CopyBug::kDontWait) heard.clear_in_sync();
  const Time now = world_->queue().now();
  const absl::Status had = copy->Have(heard, server(), now);
  if (!had.ok()) {
    copies_.erase(shard);
    return world_->oracle().Breach(
        absl::StrCat("machine ", machine_, ", shard ", shard, ": ", had.ToString()));
  }
  streams_.Follow(shard, assigned.leader() == server() ? 0 : assigned.leader());
  if (copy->leads()) {
    // A cut that was made again from the journal; the run's leader says if it is not missing.
    if (auto cut = copy->shard()->TakeReplayedCut())
      OnCut(shard, std::make_shared<ShardCut>(*std::move(cut)));
  } else {
    copy->Tick(now);
  }
  Flush(shard);
}

void SimServer::Execute(const ShardOrderTo& order) {
  const auto at = copies_.find(order.shard);
  if (at == copies_.end()) {
    return TellOrders(order.shard,
                      {{order.number, order.epoch, absl::UnavailableError("not here")}});
  }
  at->second->Execute(world_->saboteur().OnCommand(order.shard, order.command), order.number,
                      order.epoch);
  Flush(order.shard);
}

void SimServer::TellOrders(uint32_t shard, const std::vector<CopyCore::OrderDone>& done) {
  for (const CopyCore::OrderDone& order : done) {
    if (core_ == nullptr) return;  // it died by what it told before
    if (world_->tracing()) {
      world_->Note(absl::StrCat("machine ", machine_, " shard ", shard, " has done order ",
                                order.number, ": ", order.status.ToString()));
    }
    TellLeader([=](SimServer* leader) {
      leader->Feed([=](Time now, ServerEffects* effects) {
        leader->core_->OnOrderDone(shard, order.epoch, order.number, order.status, now, effects);
      });
    });
  }
}

void SimServer::TellLeader(const std::function<void(SimServer*)>& tell) {
  core_->leader() != nullptr ? tell(this) : SendUp(tell);
}

void SimServer::SendUp(std::function<void(SimServer*)> deliver) {
  if (up_.id == 0) return;
  const Link link = up_;
  const auto lost = [this, link] { LoseLink(link.id, &world_->machine(link.to)); };
  world_->Carry(
      {machine_, link.to, RunWorld::kRunStream}, {},
      [=, this] {
        SimServer& leader = world_->machine(link.to);
        if (leader.life_ == link.life && leader.down_.contains(link.id) && !lost_.contains(link.id))
          deliver(&leader);
      },
      lost);
}

// Nothing comes on a link after what was lost on it: its ends find out that it is broken.
void SimServer::LoseLink(uint64_t id, SimServer* leader) {
  if (!lost_.insert(id).second) return;
  world_->queue().After(chance_.Between(Duration(0), kServerSilence / 2), [=, this] {
    if (up_.id == id) up_ = {};
  });
  world_->queue().After(chance_.Between(Duration(0), kServerSilence / 2), [=] {
    if (leader->down_.erase(id) == 0) return;
    leader->Feed(
        [=](Time now, ServerEffects* effects) { leader->core_->OnLinkGone(id, now, effects); });
  });
}

void SimServer::SendDown(uint64_t link, std::function<void(SimServer*)> deliver) {
  const auto at = down_.find(link);
  if (at == down_.end()) return;
  SimServer* const to = &world_->machine(at->second);
  world_->Carry(
      {machine_, to->machine_, RunWorld::kRunStream}, {},
      [=] {
        if (to->up_.id == link && !to->lost_.contains(link)) deliver(to);
      },
      [=, this] { to->LoseLink(link, this); });
}

void SimServer::Connect() {
  if (up_.id != 0 || core_->leader() != nullptr) return;
  int64_t to = 0;
  if (!absl::SimpleAtoi(core_->leader_address(), &to)) to = 0;
  if (chance_.Happens(0.2)) to = chance_.Between(0, world_->machines() - 1);
  SimServer& leader = world_->machine(static_cast<uint32_t>(to));
  if (&leader == this || !leader.up() || world_->AreCut(machine_, leader.machine_) ||
      world_->AreCut(leader.machine_, machine_) || leader.core_->leader() == nullptr) {
    return;
  }
  static uint64_t last_link = 0;
  up_ = {++last_link, leader.machine_, leader.life_};
  leader.down_[up_.id] = machine_;
  if (world_->tracing())
    world_->Note(absl::StrCat("machine ", machine_, " has a link to machine ", up_.to));
  Feed([this](Time now, ServerEffects* effects) { core_->OnConnected(now, effects); });
}

void SimServer::BreakLink() {
  const Link link = std::exchange(up_, {});
  if (link.id == 0) return;
  SimServer* const leader = &world_->machine(link.to);
  world_->queue().After(chance_.Between(Duration(0), kServerSilence / 2), [=] {
    if (leader->life_ != link.life || leader->down_.erase(link.id) == 0) return;
    leader->Feed([=](Time now, ServerEffects* effects) {
      leader->core_->OnLinkGone(link.id, now, effects);
    });
  });
}

void SimServer::Request(uint64_t id, const ControlRequest& request) {
  Feed(
      [=, this](Time now, ServerEffects* effects) { core_->OnRequest(id, request, now, effects); });
}

void SimServer::Deliver(uint32_t process, uint32_t shard, Message message) {
  WhenAwake([=, this, message = std::move(message)] {
    const auto at = copies_.find(shard);
    if (at == copies_.end()) return;
    for (Message& changed : world_->saboteur().OnMessage(message))
      at->second->OnMessage(process, std::move(changed));
    if (dies_in_ >= 0 && chance_.Happens(kDiesBeforeItWrites)) return Die(false, false);
    Flush(shard);
  });
}

absl::StatusOr<std::unique_ptr<DurableShard>> SimServer::MadeAgain(uint32_t shard) {
  disk_.Fill(false);
  Flush(shard);
  return disk_.PlaceOf(shard)->Read();
}

void SimServer::OnCopyMessage(uint32_t from, const CopyMessage& message) {
  WhenAwake([=, this] {
    const auto at = copies_.find(message.shard);
    if (at == copies_.end()) return;
    if (std::holds_alternative<CopyMessage::Image>(message.what))
      streams_.ImageIsWhole(message.shard);
    if (std::holds_alternative<CopyMessage::Image>(message.what) && world_->faults().kills > 0 &&
        HasJournal(world_->scenario().config) &&
        world_->queue().now() < world_->scenario().network.heals_at &&
        !world_->store().record().over() && chance_.Happens(kDiesTakingAnImage)) {
      disk_.DieAfter(static_cast<int>(chance_.Between(int64_t{1}, kMostOperations)));
    }
    at->second->OnCopy(from, message, world_->queue().now());
    if (disk_.died()) return Die(false, false);
    disk_.DontDie();
    Flush(message.shard);
  });
}

void SimServer::Flush(uint32_t shard) {
  const auto at = copies_.find(shard);
  if (at == copies_.end() || core_ == nullptr) return;
  CopyCore& copy = *at->second;
  CopyCore::Effects effects;
  copy.Commit(world_->queue().now(), &effects);
  for (Outgoing& outgoing : effects.workers) {
    world_->AnswerWorker(machine_, shard, std::move(outgoing), copy.shard()->core());
  }
  for (CopySend& send : effects.copies) streams_.Send(std::move(send));
  std::shared_ptr<const ShardCut> taken;
  std::vector<QuarantinedWorker> quarantined;
  if (copy.shard() != nullptr) {
    quarantined = copy.shard()->core().TakeQuarantined();
    if (!copy.leads()) quarantined.clear();
    while (auto cut = copy.shard()->TakeFinishedCut()) {
      if (!copy.leads()) continue;
      if (shard == 0) world_->saboteur().OnCut(copy.shard()->core(), &*cut);
      world_->CutTaken(shard, *cut);
      taken = std::make_shared<ShardCut>(*std::move(cut));
    }
    if (auto image = copy.TakeDueImage()) SaveImageLater(shard, std::move(image));
  }
  const CopyState state = StateOf(shard);
  // What follows may drop the copy.
  TellOrders(shard, effects.orders);
  for (const QuarantinedWorker& worker : quarantined) {
    if (core_ == nullptr) return;
    TellLeader([worker](SimServer* leader) {
      leader->Feed([leader, worker](Time now, ServerEffects* effects) {
        leader->core_->OnQuarantined(worker, now, effects);
      });
    });
  }
  if (core_ == nullptr) return;
  if (taken != nullptr) OnCut(shard, taken);
  Feed([this, state](Time now, ServerEffects* more) {
    if (copies_.contains(state.shard())) core_->OnCopies({&state, 1}, now, more);
  });
}

bool SimServer::TakeFollower(uint32_t shard, uint32_t follower) {
  const auto copy = copies_.find(shard);
  if (copy == copies_.end() || world_->queue().now() < awake_at_) return false;
  copy->second->OnFollowerReached(follower);
  return true;
}

void SimServer::LoseFollower(uint32_t shard, uint32_t follower) {
  WhenAwake([=, this] {
    const auto copy = copies_.find(shard);
    if (copy == copies_.end()) return;
    copy->second->OnFollowerGone(follower, world_->queue().now());
  });
}

void SimServer::OnImagePart(const CopyMessage& message) {
  WhenAwake([=, this] {
    const auto at = copies_.find(message.shard);
    if (at == copies_.end()) return;
    streams_.ImageBegins(message);
    at->second->OnPart(world_->queue().now());
    Flush(message.shard);
  });
}

void SimServer::OnCut(uint32_t shard, std::shared_ptr<const ShardCut> cut) {
  Feed([=, this](Time, ServerEffects* effects) {
    if (copies_.contains(shard) && core_->OnCut(shard, cut->checkpoint, effects))
      cuts_.Made(shard, cut);
  });
}

void SimServer::WritePart(const effect::WritePart& part) {
  if (cuts_.Write(part.checkpoint, part.shard) == nullptr)
    return world_->oracle().Breach(NoPart(part.checkpoint, part.shard));
  world_->queue().After(chance_.Between(Duration(0), std::chrono::milliseconds(20)),
                        [=, this, life = life_] {
                          if (life != life_) return;
                          const auto receipt = WriteNow(part);
                          if (!receipt) return;
                          Feed([=, this](Time now, ServerEffects* effects) {
                            if (core_->OnPart(part, *receipt, now, effects))
                              cuts_.Written(part.checkpoint, part.shard);
                          });
                        });
}

std::optional<absl::StatusOr<ShardReceipt>> SimServer::WriteNow(const effect::WritePart& part) {
  using Next = UnsealedCheckpoint::Next;
  const bool fails = chance_.Happens(world_->scenario().failed_checkpoints);
  const Next next = unsealed_.ForPart(part);
  if (next == Next::kPassOver) return std::nullopt;
  if (next == Next::kTell) return unsealed_.receipt(part.shard);
  if (next == Next::kBegin) {
    disk_.BeginCheckpoint(part.checkpoint);
    unsealed_.Begun(part);
  }
  if (fails) return absl::ResourceExhaustedError("disk full");
  disk_.WritePart(part.checkpoint, part.shard);
  ShardReceipt receipt;
  receipt.set_shard(part.shard);
  unsealed_.Written(part.shard, receipt);
  return receipt;
}

void SimServer::SaveImageLater(uint32_t shard, std::shared_ptr<const ShardImage> image) {
  world_->queue().After(chance_.Between(Duration(0), std::chrono::milliseconds(80)),
                        [this, shard, life = life_, image = std::move(image)] {
                          if (life != life_) return;
                          WhenAwake([=, this] {
                            const auto copy = copies_.find(shard);
                            if (copy == copies_.end()) return;
                            Journal* const journal = copy->second->JournalFor(image);
                            if (journal == nullptr) return;
                            ++world_->outcome().images;
                            copy->second->ImageSaved(image, journal->SaveImage(*image));
                          });
                        });
}

CopyState SimServer::StateOf(uint32_t shard) const {
  CopyState state = copies_.at(shard)->State();
  if (state.leads()) state.set_endpoint(absl::StrCat(machine_));
  const RunRecord& record = world_->store().record();
  if (world_->faults().bug == CopyBug::kPromoteLagging && state.leads()) {
    state.set_report(state.report() + 1);
    for (const uint32_t server : record.shards(static_cast<int>(shard)).copies()) {
      CopyState::CaughtUp* const caught_up = state.add_caught_up();
      caught_up->set_server(server);
      caught_up->set_copy(IdOf(record.shards(static_cast<int>(shard)), server));
    }
  }
  if (world_->faults().bug == CopyBug::kBelieveRestarted && state.epoch() == 0) {
    state.set_epoch(record.shards(static_cast<int>(shard)).epoch());
  }
  return state;
}

void SimServer::Tick() {
  if (core_ == nullptr || over_) return;
  WhenAwake([this] {
    if (core_ == nullptr || over_) return;
    if (up_.id != 0 && (world_->AreCut(machine_, up_.to) || world_->AreCut(up_.to, machine_)) &&
        chance_.Happens(0.1)) {
      BreakLink();
    }
    Connect();
    Feed([this](Time now, ServerEffects* effects) { core_->Tick(now, effects); });
    std::vector<uint32_t> shards;
    for (auto& [shard, copy] : copies_) {
      copy->Tick(world_->queue().now());
      shards.push_back(shard);
    }
    for (const uint32_t shard : shards) Flush(shard);
  });
}

}  // namespace psgd::sim
