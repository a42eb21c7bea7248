// A run's servers in the simulation, as ParameterServer and ShardHost have them: the coordinator
// with its shards over simulated disks, others that hold shards for it, and the connections between
// them. The coordinator can die at any moment, between any two steps of what it does, and be
// started again; so can the others.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/control/shard_moves.h"
#include "server/coordinator/coordinator_core.h"
#include "server/coordinator/order_book.h"
#include "server/durability/durable_shard.h"
#include "simulate/chance.h"
#include "tests/sim/holder.h"
#include "tests/sim/sabotage.h"
#include "tests/sim/scenario.h"
#include "tests/sim/standby.h"
#include "tests/sim/storage.h"

namespace psgd::sim {

class Cluster;

// Not thread-safe.
class Server {
 public:
  Server(Cluster* cluster, const Scenario& scenario);

  bool up() const { return up_; }
  // REQUIRES: up().
  CoordinatorCore& coordinator() { return *coordinator_; }
  // Where it is held; null: that server is not there.
  const DurableShard* shard(uint32_t s) const;
  uint32_t shards() const { return static_cast<uint32_t>(scenario_.config.cluster().shards()); }
  // Everything that was decided is carried out, and every shard is there.
  bool settled() const;
  uint64_t crashes() const { return crashes_; }
  uint64_t images() const;
  uint64_t takeovers() const { return takeovers_; }
  uint64_t moves() const { return moves_done_; }
  uint64_t undone_moves() const { return moves_undone_; }
  uint64_t joined_crashes() const { return joined_crashes_; }
  uint64_t power_losses() const { return power_losses_; }
  uint64_t torn_images() const { return torn_images_; }
  uint64_t pauses() const { return pauses_; }

  // Carries out what the coordinator decided. False: nobody gets an answer, since the server died
  // on the way or cannot write it down.
  bool Apply(Effects effects);
  // To that server.
  void Deliver(uint32_t process, uint32_t server, uint32_t shard, Message message);
  void Tick();
  // Of the shards, as workers are told them: the number of the server.
  std::vector<std::string> Endpoints() const;
  uint32_t HolderOf(uint32_t shard) const { return moves_.owners()[shard]; }

  // By its clock, which may be set ahead or back.
  Time Now() const;
  void StepClock(Duration step);
  // The coordinator answered that member.
  void Heard(const WorkerKey& key);

  // At once, or in the midst of what it does next.
  enum class Death { kKilled, kPower };
  void Die(Death death);
  void DieSoon(Death death);
  // Any server, now, or while it writes its next image.
  void Kill(uint32_t server, Death death);
  void DieWithImage(uint32_t server, Death death);
  void Pause(uint32_t server, Duration length);
  // Runs it once the coordinator's server stands still no more; never, if it dies before.
  void WhenAwake(std::function<void()> action) { own_.WhenAwake(std::move(action)); }
  void FillDisks(Duration length);
  void KillStandby();
  // What befalls servers that joined, each any of them; nothing where there are none.
  void KillJoined(Death death);
  void PauseAny(Duration length);
  void BreakConnection(uint32_t server) {
    if (At(server).up) Disconnect(server);
  }
  void BreakAnyConnection();
  // It gives its shards to others and ends; later it comes again.
  void Leave(uint32_t server);
  void LeaveJoined();
  // As `ps-ctl rebalance --move`.
  void MoveTo(uint32_t shard, uint32_t server);
  // What the disks hold makes the very shards that are here.
  void CheckDisks();

 private:
  // A server that joined, and the connection to it.
  struct Joined {
    std::unique_ptr<Holder> holder;
    bool up = false;
    bool connected = false;
    bool leaving = false;
    std::deque<std::function<void()>> late;  // calls that it has not heard yet, in order
    std::map<uint32_t, ShardCut> cuts;       // by shard, until their checkpoint is done
  };

  void Start();
  void StartAgain();
  absl::Status Recover(const CoordinatorRecord& record);
  // Goes on with the shards that the standby holds, and its disks: the server's own are lost.
  absl::Status TakeOver();
  void RestoreCoordinator(const CoordinatorRecord& record);
  void RestoreCuts();
  // A standby begins to follow a little later, and is waited for once it has caught up.
  void BeginStandbyLater();
  void CatchUp();
  bool replicated() const;
  // In its next life.
  DurableShardOptions ShardOptionsWithoutJournal(uint32_t shard);
  DurableShardOptions ShardOptionsFor(Holder& holder, uint32_t shard);
  bool journals() const;
  bool syncs() const;
  // True when this is the moment at which it dies.
  bool DiesHere();
  bool CarryOut();
  absl::Status Execute(uint32_t shard, const ShardCommand& command, uint64_t number);
  bool SaveRecord();
  // The oracle hears of what is decided once, and once it is.
  void Tell(uint64_t number, const ShardCommand& command);
  void TakeCut(uint32_t shard, const ShardCut& cut);
  void CheckpointWritten(uint64_t id);
  void TellCheckpointDone(uint64_t id);
  // Ends leases, and finds those that ended although their worker had been heard.
  bool EndLeases(Time now);

  // Servers that joined (server_joined.cc).
  void JoinLater();
  bool Faulty() const;
  Joined& At(uint32_t server) { return joined_[server - 2]; }
  Holder* HolderAt(uint32_t server) {
    return server == ShardMoves::kCoordinator ? &own_ : At(server).holder.get();
  }
  // Has a server do something. UNAVAILABLE: it does not answer, and has done it, or has not, or
  // will.
  absl::Status Call(uint32_t server, const std::function<absl::Status(Holder&)>& what);
  void HearLate(Joined* joined);
  void Disconnect(uint32_t server);
  void DisconnectAll();
  void ConnectLater(uint32_t server);
  void Connect(uint32_t server);
  void StartJoined(uint32_t server);
  void KillOther(uint32_t server, Death death);
  void TakeCutOf(uint32_t server, uint32_t shard, const ShardCut& cut);
  void Spread();
  void TickJoined();
  // One that is there; 0: none.
  uint32_t AnyJoined();

  // Moves (server_moves.cc).
  void MoveOn();
  void AskForMove();
  void StepOfMove();
  absl::Status CarryOutStep(const ShardMoves::Step& step);
  absl::Status Give(const ShardMoves::Step& step);
  absl::Status Take(const ShardMoves::Step& step);
  absl::Status Follow(const ShardMoves::Step& step);
  absl::Status WriteDownMove(const ShardMoves::Step& step);

  Cluster* const cluster_;
  const Scenario& scenario_;
  Chance chance_;
  Saboteur saboteur_;

  // The disks, and the shards of this life.
  Holder own_;
  RecordDisk record_;
  Standby standby_;
  std::shared_ptr<Standby*> behind_;  // the shards of this life

  // This life.
  bool up_ = false;
  uint64_t life_ = 0;
  std::unique_ptr<CoordinatorCore> coordinator_;
  OrderBook orders_;
  std::vector<uint64_t> written_;  // by shard: the last order that it is known to have written down
  std::map<uint64_t, std::set<uint32_t>> cuts_;  // checkpoint -> shards that gave theirs
  std::map<uint64_t, bool> cut_fails_;
  ShardMoves moves_;
  ShardImage moving_;      // that was given
  uint64_t followed_ = 0;  // the last step since that the new server went
  ShardMoves::Followed round_;

  Chance join_chance_;
  std::deque<Joined> joined_;  // from number 2 on
  uint64_t moves_done_ = 0, moves_undone_ = 0, joined_crashes_ = 0;

  Duration clock_offset_{};
  Duration hidden_step_{};  // of the clock, that the coordinator is not to notice
  std::map<std::pair<uint32_t, uint32_t>, Time> heard_;  // worker, incarnation -> real time
  uint64_t told_ = 0;                                    // orders that the oracle knows
  int steps_to_live_ = 0;
  Death death_ = Death::kKilled;  // then
  bool must_take_over_ = false;   // the disk of the one that led is lost
  uint32_t shard_lives_ = 0;
  uint64_t crashes_ = 0;
  uint64_t takeovers_ = 0;
  uint64_t power_losses_ = 0;
  uint64_t torn_images_ = 0;  // that were passed over
  uint64_t pauses_ = 0;
};

}  // namespace psgd::sim
