#include "tests/sim/chain_sim.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd::sim {
namespace {

constexpr double kStoreFails = 0.1;

// One server's way to the store.
class LossyStore final : public ChainStore {
 public:
  LossyStore(std::shared_ptr<StoreRegister> held, Chance* chance, const bool* healed,
             ChainSabotage sabotage)
      : held_(std::move(held)), chance_(*chance), healed_(*healed), sabotage_(sabotage) {}

  absl::StatusOr<Held> Read() override {
    if (Fails()) return Nobody();
    return Held{held_->revision, held_->chain, held_->led};
  }
  absl::StatusOr<int64_t> Replace(int64_t revision, const Chain& next, As as) override {
    const auto change = [held = held_, revision, next = Known(next), as, sabotage = sabotage_] {
      const bool compares = sabotage != ChainSabotage::kStoreComparesNothing;
      if (compares && (held->revision != revision || (as == As::kSuccessor && held->led))) return;
      held->chain = next;
      held->revision = ++held->changes;
      held->led = true;
    };
    if (Fails()) {
      if (chance_.Happens(0.3))
        change();
      else if (chance_.Happens(0.5))
        held_->late.push_back(change);
      return Nobody();
    }
    change();
    if (held_->chain.SerializeAsString() == Known(next).SerializeAsString()) return held_->revision;
    return absl::AbortedError("it is another by now");
  }
  absl::Status Keep(int64_t revision) override {
    if (Fails()) return Nobody();
    if (held_->revision != revision) return absl::AbortedError("it is another by now");
    held_->led = true;
    return absl::OkStatus();
  }
  absl::Status Remove(int64_t) override { return absl::OkStatus(); }
  bool decides() const override { return true; }

 private:
  static absl::Status Nobody() { return absl::UnavailableError("the store does not answer"); }
  bool Fails() { return !healed_ && chance_.Happens(kStoreFails); }
  Chain Known(Chain chain) const {
    if (sabotage_ != ChainSabotage::kForgetWhenItCameIn) return chain;
    for (Chain::Member& member : *chain.mutable_members()) member.set_since(1);
    return chain;
  }

  const std::shared_ptr<StoreRegister> held_;
  Chance& chance_;
  const bool& healed_;
  const ChainSabotage sabotage_;
};

}  // namespace

ChainSim::ChainSim(uint64_t seed, ChainSabotage sabotage) : chance_(seed, 9), sabotage_(sabotage) {
  for (uint32_t replica = 1; replica <= 4; ++replica) {
    Server& server = servers_.emplace_back();
    server.replica = replica;
    server.address = absl::StrCat("host-", replica);
    server.store = std::make_shared<LossyStore>(held_, &chance_, &healed_, sabotage);
    server.up = true;
  }
  Server& first = servers_[0];
  const Chain chain = NewChain(1, first.address);
  held_->chain = chain;
  held_->revision = held_->changes = 1;
  held_->led = true;
  Lead(first, {chain, 1});
  first.own = chain;
}

std::string ChainSim::Run(int steps) {
  for (int i = 0; i < steps && wrong_.empty(); ++i) {
    if (chance_.Happens(0.02))
      held_->led = false;  // a lease runs out, of a leader that lives or not
    if (!held_->late.empty() && chance_.Happens(0.1)) {
      held_->late.back()();
      held_->late.pop_back();
    }
    Step(servers_[static_cast<size_t>(
        chance_.Between(int64_t{0}, static_cast<int64_t>(servers_.size()) - 1))]);
  }
  if (wrong_.empty()) Heal();
  return wrong_;
}

// All that is dead comes back and the store answers: then somebody leads, and acknowledges.
void ChainSim::Heal() {
  healed_ = true;
  held_->late.clear();
  const size_t before = acknowledged_.size();
  for (int i = 0; i < 20'000 && wrong_.empty() && acknowledged_.size() < before + 10; ++i) {
    held_->led = std::any_of(servers_.begin(), servers_.end(), [&](const Server& server) {
      return server.up && server.keeper != nullptr &&
             server.replica == held_->chain.members(0).replica();
    });
    Step(servers_[static_cast<size_t>(i) % servers_.size()]);
  }
  if (wrong_.empty() && acknowledged_.size() < before + 10) wrong_ = "nobody leads in the end";
}

void ChainSim::Step(Server& server) {
  if (!server.up) return StepOfDead(server);
  if (!healed_ && chance_.Happens(0.004)) return Leave(server);
  if (server.keeper != nullptr) return StepOfLeader(server);
  StepOfFollower(server);
}

void ChainSim::Leave(Server& server) {
  server.up = false;
  if (server.followers != nullptr) server.followers->CloseAll();
  server.followers.reset();
  server.keeper.reset();
  server.log.reset();
  server.records.reset();
  server.follows = 0;
}

void ChainSim::StepOfDead(Server& server) {
  if (!healed_ && chance_.Happens(0.97)) return;
  if (chance_.Happens(0.2)) {
    std::swap(server.entries, server.old_entries);
    std::swap(server.own, server.old_own);
  }
  // As `ps-server --recover`; or else it follows anew.
  if (server.own.members_size() > 0) {
    auto led = LeadAgain(*server.store, server.own, server.replica, server.address);
    if (led.ok()) {
      server.up = true;
      return Lead(server, *std::move(led));
    }
    if (!absl::IsFailedPrecondition(led.status())) return;
  }
  server.up = true;
}

void ChainSim::Lead(Server& server, LedChain led) {
  ++takeovers_;
  const std::set<int> has(server.entries.begin(), server.entries.end());
  for (const int entry : acknowledged_) {
    if (has.contains(entry)) continue;
    wrong_ = absl::StrCat("server ", server.replica, " leads and has lost an acknowledged entry");
    return;
  }
  server.log.reset();
  server.records.reset();
  server.follows = 0;
  server.shipped = 0;
  server.answered = server.entries.size();
  server.followers = std::make_shared<FollowerSet>(1, Duration(0));
  server.keeper = std::make_unique<ChainKeeper>(server.store, server.followers, server.replica);
  if (chance_.Happens(0.5)) server.own = led.chain;  // or it dies before it has written that down
  server.keeper->GoOn(std::move(led));
}

void ChainSim::StepOfLeader(Server& server) {
  if (!server.keeper->deposed_by().empty()) return Leave(server);
  switch (chance_.Between(int64_t{0}, int64_t{5})) {
    case 0: {
      auto part = std::make_shared<LogPart>();
      part->mutable_shard()->mutable_entries()->set_first(server.entries.size() + 1);
      part->mutable_shard()->mutable_entries()->add_values(std::to_string(next_entry_));
      server.entries.push_back(next_entry_++);
      return server.followers->Publish(kEntryLog, std::move(part), server.entries.size());
    }
    case 1:
      return Answer(server);
    case 2:
      (void)server.keeper->Keep();
      return;
    case 3:
      return TakeIn(server);
    case 4:
      if (chance_.Happens(0.05)) Drop(server);
      return;
    default:
      return Ship(server);
  }
}

void ChainSim::Ship(Server& leader) {
  leader.own = leader.keeper->chain();
  auto part = std::make_shared<LogPart>();
  part->mutable_record()->set_number(++leader.shipped);
  *part->mutable_record()->mutable_record()->mutable_chain() = leader.own;
  leader.followers->Publish(kRecordLog, std::move(part), leader.shipped);
}

void ChainSim::Answer(Server& leader) {
  if (!leader.followers->WaitWritten(kEntryLog, leader.entries.size()).ok()) return;
  const uint32_t leads = held_->chain.members(0).replica();
  for (; leader.answered < leader.entries.size(); ++leader.answered) {
    const int entry = leader.entries[leader.answered];
    acknowledged_.push_back(entry);
    const std::vector<int>& there = servers_[leads - 1].entries;
    if (std::find(there.begin(), there.end(), entry) != there.end()) continue;
    wrong_ = absl::StrCat("server ", leader.replica, " acknowledged what server ", leads,
                          ", which leads, does not have");
  }
}

void ChainSim::TakeIn(Server& leader) {
  std::vector<Chain::Member> coming = leader.followers->Ready();
  const Chain chain = leader.keeper->chain();
  for (Chain::Member& member : leader.followers->Required()) {
    if (!IsIn(chain, member.replica())) coming.push_back(std::move(member));
  }
  for (const Chain::Member& member : coming) {
    const auto in = leader.keeper->TakeIn(member);
    if (in.ok() && *in) Ship(leader);
  }
}

void ChainSim::Drop(Server& leader) {
  auto followers = leader.followers->Required();
  if (healed_) {
    std::erase_if(followers, [&](const Chain::Member& member) {
      return servers_[member.replica() - 1].follows == leader.replica;
    });
  }
  if (followers.empty()) return;
  const uint32_t replica = followers[static_cast<size_t>(chance_.Between(
                                         int64_t{0}, static_cast<int64_t>(followers.size()) - 1))]
                               .replica();
  if (sabotage_ == ChainSabotage::kForgetBeforeTheChain) leader.followers->Forget(replica);
  if (leader.keeper->TakeOut(replica).ok()) Ship(leader);
}

void ChainSim::StepOfFollower(Server& server) {
  const bool may_lead = server.complete && server.has_record && IsIn(server.own, server.replica);
  if (may_lead && chance_.Happens(healed_ ? 0.3 : 0.05)) {
    auto led = TakeLead(*server.store, server.own, server.replica);
    if (led.ok()) return Lead(server, *std::move(led));
  }
  const bool connected = server.follows != 0 && server.log != nullptr && !server.log->closed() &&
                         !server.records->closed();
  if (!connected || (!healed_ && chance_.Happens(0.01))) {
    if (!chance_.Happens(0.2)) return;
    const auto held = server.store->Read();
    if (!held.ok()) return;
    Server& other = servers_[held->chain.members(0).replica() - 1];
    if (other.up && other.keeper != nullptr) return Begin(server, other);
    // Who waits for a leader in vain is started again where its journal ends.
    if (chance_.Happens(0.1)) Leave(server);
    return;
  }
  if (chance_.Happens(0.5)) return TakeRecord(server);
  TakeEntries(server);
}

void ChainSim::Begin(Server& follower, Server& leader) {
  // It holds nothing any more; then its leader hears of that.
  follower.entries.clear();
  follower.own.Clear();
  follower.complete = follower.has_record = false;
  follower.follows = 0;
  Chain::Member self;
  self.set_replica(follower.replica);
  self.set_address(follower.address);
  self.set_identity(follower.replica);
  if (!leader.keeper->BeginsAnew(self).ok()) return;
  follower.records = std::make_shared<FollowerLog>(leader.shipped);
  if (!leader.followers->Connect(self, kRecordLog, follower.records).ok()) return;
  Ship(leader);
  follower.log = std::make_shared<FollowerLog>(leader.entries.size());
  if (!leader.followers->Connect(self, kEntryLog, follower.log).ok()) return;
  follower.entries = leader.entries;
  follower.complete = true;
  follower.log->Written(follower.entries.size());
  follower.follows = leader.replica;
}

void ChainSim::TakeRecord(Server& follower) {
  const auto part = follower.records->Next(Duration(0));
  if (part == nullptr) return;
  follower.own = part->record().record().chain();
  follower.has_record = true;
  follower.records->Written(part->record().number());
}

void ChainSim::TakeEntries(Server& follower) {
  const auto part = follower.log->Next(Duration(0));
  if (part == nullptr) return;
  const uint64_t last = part->shard().entries().first();
  if (sabotage_ == ChainSabotage::kSayWrittenBeforehand && chance_.Happens(0.2)) {
    follower.log->Written(last);
    return;
  }
  follower.entries.push_back(std::stoi(part->shard().entries().values(0)));
  follower.log->Written(last);
}

}  // namespace psgd::sim
