// A server process in simulated time: the shell around a ServerCore and its copies, and a disk that
// outlives it. It can die between any two of its effects.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "server/cluster/copy_core.h"
#include "server/cluster/held_cuts.h"
#include "server/cluster/server_core.h"
#include "server/cluster/unsealed_checkpoint.h"
#include "simulate/chance.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_streams.h"

namespace psgd::sim {

class RunWorld;

// A server that says nothing for so long is taken to be gone.
inline constexpr Duration kServerSilence = std::chrono::milliseconds(400);

// Deliberate faults of the protocol between servers, each of which a checker must find.
enum class CopyBug {
  kNone,
  kDontWait,          // a leading copy acknowledges before the copies in sync have it
  kPromoteLagging,    // a copy is reported as caught up before it is
  kDealAll,           // a run goes on from a checkpoint with every batch of the pass to be dealt
  kSameEpoch,         // a promoted copy keeps the epoch of the one before
  kForgetOrders,      // the stored record lacks the orders
  kForgetMembers,     // the stored record lacks a worker
  kForgetCheckpoint,  // the stored record lacks the checkpoint under way
  kDealAgain,         // the stored record has every batch of the pass as still to be dealt
  kForgetLedger,      // the stored record lacks the segments that were dealt last
  kTellUnstored,      // orders are given before the record is stored
  kSkipStep,          // a step reaches a copy without its gradients, and nobody notices
  kKeepDiverged,      // a copy goes on with a journal that is no beginning of the leader's
  kBelieveRestarted,  // a copy read from a disk that lost power counts as in sync
  kForgetResume,      // the stored record lacks the checkpoint that the run goes on from
  kTakeHalfImage,     // an image of which the last parts did not come is taken for a whole one
  kIgnoreStore,       // a server leads although another one took the lead
};

// Not thread-safe.
class SimServer {
 public:
  SimServer(RunWorld* world, uint32_t machine);

  // Starts the process. `begins`: a new run.
  void Boot(bool begins);
  void Die(bool power, bool lose_disk);
  uint64_t life() const { return life_; }
  void DieSoon() { dies_in_ = static_cast<int>(chance_.Between(0, 6)); }
  void Pause(Time until) { awake_at_ = std::max(awake_at_, until); }
  void Leave();
  void FillDisk(bool full) { disk_.Fill(full); }

  bool up() const { return core_ != nullptr; }
  // It is up, and did not stand still lately: a server that stood still may have been reported as
  // silent meanwhile, which is a fault of its own.
  bool steady() const;
  bool over() const { return over_; }
  uint32_t machine() const { return machine_; }
  uint32_t server() const { return core_ == nullptr ? 0 : core_->holder().self().server(); }
  const ServerCore& core() const { return *core_; }
  const CopyCore* copy(uint32_t shard) const;
  const std::map<uint32_t, std::unique_ptr<CopyCore>>& copies() const { return copies_; }

  // What comes from outside.
  void Request(uint64_t id, const ControlRequest& request);
  void Deliver(uint32_t process, uint32_t shard, Message message);
  void OnCopyMessage(uint32_t from, const CopyMessage& message);
  void OnImagePart(const CopyMessage& message);
  void Tick();
  // What the disk holds of a shard. REQUIRES: the run keeps journals, and is over.
  absl::StatusOr<std::unique_ptr<DurableShard>> MadeAgain(uint32_t shard);

  // For streams between copies.
  SimStreams& streams() { return streams_; }
  // Runs it when this process is awake; never, if it dies before.
  void WhenAwake(std::function<void()> action);
  // A following copy opens a stream. False: this server stands still, or has no copy of the shard.
  bool TakeFollower(uint32_t shard, uint32_t follower);
  void LoseFollower(uint32_t shard, uint32_t follower);
  // The stream of the copy here is open. REQUIRES: there is a copy of the shard.
  void OnReached(uint32_t shard) { copies_.at(shard)->OnReached(); }

 private:
  using Input = std::function<void(Time, ServerEffects*)>;
  struct Link {
    uint64_t id = 0;    // 0: there is none
    uint32_t to = 0;    // machine
    uint64_t life = 0;  // of that machine
  };

  void Feed(const Input& input);
  void CarryOut(ServerEffects effects);
  void Do(const effect::HaveCopy& have);
  void Do(const effect::DropCopy& drop);
  void Do(const effect::CheckpointDone& done);
  void Do(effect::SendState& state);
  void Do(effect::SendAssignment& assign);
  void Do(const effect::SendOrder& order);
  void Do(const effect::Refuse& refuse);
  void Do(const effect::ReadStore&);
  void Do(effect::WriteStore& write);
  void Do(const effect::KeepLease& keep);
  void Do(effect::Answer& answer);
  void Do(const effect::SendPart& made);
  void Do(const effect::WritePart& part);
  void Do(effect::SealCheckpoint& seal);
  void Do(const effect::DiscardParts& parts);
  void Do(const effect::News& news);
  void Do(const effect::End& end);
  // The simulation has no passes, and no records of a run.
  void Do(const effect::Admit&) {}
  void Do(const effect::Expel&) {}
  void Do(const effect::Observed&) {}
  void Have(const AssignedCopy& assigned);
  void Execute(const ShardOrderTo& order);
  void TellOrders(uint32_t shard, const std::vector<CopyCore::OrderDone>& done);
  // To the server that leads the run, which may be this server.
  void TellLeader(const std::function<void(SimServer*)>& tell);
  void SendUp(std::function<void(SimServer*)> deliver);
  void SendDown(uint64_t link, std::function<void(SimServer*)> deliver);
  void Connect();
  void BreakLink();
  void LoseLink(uint64_t id, SimServer* leader);
  void Flush(uint32_t shard);
  void OnCut(uint32_t shard, std::shared_ptr<const ShardCut> cut);
  void WritePart(const effect::WritePart& part);
  // Nothing: the part is passed over.
  std::optional<absl::StatusOr<ShardReceipt>> WriteNow(const effect::WritePart& part);
  void SaveImageLater(uint32_t shard, std::shared_ptr<const ShardImage> image);
  CopyState StateOf(uint32_t shard) const;
  CopyOptions OptionsOf(uint32_t shard);
  void CannotStart(uint32_t shard, const absl::Status& why);
  void EmptyDisk();

  RunWorld* const world_;
  const uint32_t machine_;
  Chance chance_;
  uint64_t life_ = 0;
  Time awake_at_{};
  int dies_in_ = -1;  // effects; -1: it does not
  bool over_ = false;

  // The disk.
  uint64_t identity_ = 0;
  SimDisk disk_;
  bool lost_power_ = false;

  // The process.
  std::unique_ptr<ServerCore> core_;
  std::map<uint32_t, std::unique_ptr<CopyCore>> copies_;
  SimStreams streams_;
  HeldCuts cuts_;
  UnsealedCheckpoint unsealed_;
  Link up_;                            // to the machine that leads the run
  std::set<uint64_t> lost_;            // links to others on which something was lost
  std::map<uint64_t, uint32_t> down_;  // links of others to this one: machine
  std::deque<ServerEffects> to_do_;
  bool busy_ = false;
};

}  // namespace psgd::sim
