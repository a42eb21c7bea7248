// The part of the simulated servers that joined the coordinator: what server/shard_host does, and
// remote_host over a connection that breaks, and whose messages come late.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/cluster.h"

namespace psgd::sim {
namespace {

constexpr uint32_t kFirstJoined = ShardMoves::kCoordinator + 1;

absl::Status Away(uint32_t server) {
  return absl::UnavailableError(absl::StrCat("server ", server, " is away"));
}

}  // namespace

void Server::JoinLater() {
  for (int i = 0; i < scenario_.joined; ++i) {
    const uint32_t server = kFirstJoined + static_cast<uint32_t>(i);
    joined_.emplace_back().holder = std::make_unique<Holder>(
        cluster_, scenario_, server, &saboteur_,
        [this, server](uint32_t shard, const ShardCut& cut) { TakeCutOf(server, shard, cut); });
    cluster_->queue().After(join_chance_.Between(Duration(0), std::chrono::milliseconds(80)),
                            [this, server] { StartJoined(server); });
  }
  if (scenario_.joined > 0) MoveOn();
}

bool Server::Faulty() const { return cluster_->queue().now() < scenario_.network.heals_at; }

absl::Status Server::Call(uint32_t server, const std::function<absl::Status(Holder&)>& what) {
  if (server == ShardMoves::kCoordinator) return what(own_);
  Joined& to = At(server);
  if (!to.connected) return Away(server);
  if (to.holder->paused()) {
    to.late.push_back([what, holder = to.holder.get()] { (void)what(*holder); });
    return absl::UnavailableError(absl::StrCat("server ", server, " does not answer in time"));
  }
  HearLate(&to);
  if (Faulty() && join_chance_.Happens(scenario_.broken_calls)) {
    if (join_chance_.Happens(0.5)) (void)what(*to.holder);
    Disconnect(server);
    return Away(server);
  }
  if (Faulty() && join_chance_.Happens(scenario_.late_calls)) {
    to.late.push_back([what, holder = to.holder.get()] { (void)what(*holder); });
    return absl::UnavailableError(absl::StrCat("server ", server, " does not answer in time"));
  }
  return what(*to.holder);
}

void Server::HearLate(Joined* joined) {
  while (!joined->late.empty()) {
    const auto heard = std::move(joined->late.front());
    joined->late.pop_front();
    heard();
  }
}

void Server::Disconnect(uint32_t server) {
  Joined& joined = At(server);
  if (!std::exchange(joined.connected, false)) return;
  if (cluster_->tracing()) cluster_->Note(absl::StrCat("server ", server, " is away"));
  // What was on its way is heard, or lost.
  if (joined.up && join_chance_.Happens(0.5)) HearLate(&joined);
  joined.late.clear();
  if (scenario_.sabotage != Sabotage::kKeepMove) moves_.Away(server);
  Spread();
  if (joined.up) ConnectLater(server);
}

void Server::DisconnectAll() {
  for (uint32_t i = 0; i < joined_.size(); ++i) Disconnect(kFirstJoined + i);
}

void Server::ConnectLater(uint32_t server) {
  const Duration most =
      join_chance_.Happens(0.2) ? std::chrono::milliseconds(150) : std::chrono::milliseconds(8);
  const Duration after = join_chance_.Between(std::chrono::milliseconds(1), most);
  cluster_->queue().After(after, [this, server] {
    const Joined& joined = At(server);
    if (!joined.up || joined.connected) return;
    if (up_ && !own_.paused() && !joined.holder->paused() &&
        (!coordinator_->over() || orders_.pending()))
      return Connect(server);
    ConnectLater(server);
  });
}

void Server::Connect(uint32_t server) {
  Joined& joined = At(server);
  joined.connected = true;
  std::set<uint32_t> has;
  for (const auto& [shard, durable] : joined.holder->shards()) {
    has.insert(shard);
    if (HolderOf(shard) == server)
      written_[shard] = durable->stalled().ok() ? durable->core().last_order() : 0;
  }
  ShardMoves as_if = moves_;
  const auto back = (scenario_.sabotage == Sabotage::kKeepMove ? as_if : moves_).Back(server, has);
  if (cluster_->tracing()) {
    cluster_->Note(absl::StrCat("server ", server, " is here, with ", has.size(),
                                " shards, of which ", back.drop.size(), " are not its own"));
  }
  if (!back.lost.empty()) {
    cluster_->FoundOut(absl::StrCat("server ", server, " came back without shard ", back.lost[0]));
  }
  for (const uint32_t shard : back.drop) {
    (void)Call(server, [&joined, shard](Holder& holder) {
      joined.cuts.erase(shard);
      holder.Drop(shard);
      return absl::OkStatus();
    });
  }
  for (const uint32_t shard : back.go_on) {
    (void)Call(server, [shard](Holder& holder) {
      if (DurableShard* const durable = holder.Find(shard)) durable->KeepOn();
      return absl::OkStatus();
    });
  }
  const auto cuts = std::exchange(joined.cuts, {});
  const auto& under_way = coordinator_->checkpoint_under_way();
  for (const auto& [shard, cut] : cuts) {
    DurableShard* const durable = joined.holder->Find(shard);
    if (durable == nullptr) continue;
    if (under_way && under_way->checkpoint == cut.checkpoint) {
      TakeCutOf(server, shard, cut);
    } else {
      durable->CheckpointDone(cut.checkpoint);
    }
  }
  if (coordinator_->placement() != nullptr) coordinator_->MoveShards(Endpoints());
  Spread();
  Apply({});
}

void Server::StartJoined(uint32_t server) {
  Joined& joined = At(server);
  joined.up = true;
  joined.leaving = false;
  for (const auto& [shard, disk] : joined.holder->disks()) {
    std::vector<std::string> notes;
    auto durable = DurableShard::Recover(ShardOptionsFor(*joined.holder, shard), &notes);
    if (!durable.ok()) {
      return cluster_->FoundOut(
          absl::StrCat("server ", server, " cannot go on: ", durable.status().ToString()));
    }
    torn_images_ += notes.size();
    (*durable)->StandStill();
    if (auto cut = (*durable)->TakeReplayedCut()) joined.cuts[shard] = *std::move(cut);
    joined.holder->Put(shard, *std::move(durable));
  }
  ConnectLater(server);
}

void Server::Kill(uint32_t server, Death death) {
  if (server == ShardMoves::kCoordinator) return Die(death);
  KillOther(server, death);
}

void Server::KillOther(uint32_t server, Death death) {
  Joined& joined = At(server);
  if (!std::exchange(joined.up, false)) return;
  const bool power = death == Death::kPower;
  if (cluster_->tracing())
    cluster_->Note(absl::StrCat("server ", server, power ? "'s machine loses power" : " dies"));
  ++joined_crashes_;
  power_losses_ += power;
  if (joined.holder->Die(power)) cluster_->oracle().MayHaveLost();
  joined.cuts.clear();
  Disconnect(server);
  cluster_->queue().After(
      join_chance_.Between(std::chrono::milliseconds(2), std::chrono::milliseconds(300)),
      [this, server] { StartJoined(server); });
}

uint32_t Server::AnyJoined() {
  if (joined_.empty()) return 0;
  const auto server = static_cast<uint32_t>(join_chance_.Between(
      int64_t{kFirstJoined}, static_cast<int64_t>(kFirstJoined + joined_.size() - 1)));
  return At(server).up ? server : 0;
}

void Server::KillJoined(Death death) {
  const uint32_t server = AnyJoined();
  // What lives in memory alone would be lost, and the run with it.
  if (server != 0 && journals()) KillOther(server, death);
}

void Server::PauseAny(Duration length) {
  const uint32_t joined = join_chance_.Happens(0.5) ? AnyJoined() : 0;
  Pause(joined == 0 ? ShardMoves::kCoordinator : joined, length);
}

void Server::BreakAnyConnection() {
  if (const uint32_t server = AnyJoined()) BreakConnection(server);
}

void Server::Leave(uint32_t server) {
  if (!At(server).up) return;
  At(server).leaving = true;
  Spread();
}

void Server::LeaveJoined() {
  if (const uint32_t server = AnyJoined()) Leave(server);
}

void Server::Spread() {
  if (!up_) return;
  std::vector<uint32_t> servers = {ShardMoves::kCoordinator};
  const std::vector<uint32_t>& owners = moves_.owners();
  for (uint32_t i = 0; i < joined_.size(); ++i) {
    const uint32_t server = kFirstJoined + i;
    const bool holds = std::find(owners.begin(), owners.end(), server) != owners.end();
    if (!joined_[i].leaving && (joined_[i].connected || holds)) servers.push_back(server);
  }
  moves_.Spread(servers);
}

void Server::TakeCutOf(uint32_t server, uint32_t shard, const ShardCut& cut) {
  // Until the coordinator says that its checkpoint is done: what was sent may have been lost.
  At(server).cuts[shard] = cut;
  if (!At(server).connected) return;
  cluster_->queue().After(join_chance_.Between(Duration(0), std::chrono::milliseconds(20)),
                          [this, server, shard, cut, life = life_] {
                            if (life != life_) return;
                            own_.WhenAwake([this, server, shard, cut] {
                              if (!up_ || !At(server).connected) return;
                              const auto& under_way = coordinator_->checkpoint_under_way();
                              if (under_way && under_way->checkpoint == cut.checkpoint)
                                TakeCut(shard, cut);
                            });
                          });
}

void Server::TickJoined() {
  for (uint32_t i = 0; i < joined_.size(); ++i) {
    Joined& joined = joined_[i];
    if (!joined.up || joined.holder->paused()) continue;
    if (join_chance_.Happens(0.5)) HearLate(&joined);
    joined.holder->CommitAll();
    if (!joined.leaving || !joined.holder->shards().empty()) continue;
    joined.up = false;
    Disconnect(kFirstJoined + i);
    cluster_->queue().After(
        join_chance_.Between(std::chrono::milliseconds(20), std::chrono::milliseconds(400)),
        [this, server = kFirstJoined + i] { StartJoined(server); });
  }
}

}  // namespace psgd::sim
