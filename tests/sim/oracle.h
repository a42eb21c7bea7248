// Knows what should be true, from what was sent, told and seen outside the cores alone, and notes
// every breach. It never asks a core for its own view.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "net/message.h"
#include "proto/checkpoint.pb.h"
#include "proto/control.pb.h"
#include "proto/model.pb.h"
#include "server/coordinator/data_ledger.h"
#include "server/shard/shard_core.h"
#include "tests/sim/gradients.h"
#include "tests/sim/scenario.h"
#include "worker/fragments.h"
#include "worker/session_core.h"

namespace psgd::sim {

// Not thread-safe.
class Oracle {
 public:
  explicit Oracle(const Scenario& scenario) : scenario_(scenario) {}

  // Members: an incarnation of a worker, numbered in the order of registration.
  void Registered(const WorkerKey& key, const Placement& placement);
  std::optional<uint32_t> Member(const WorkerKey& key) const;
  void Removed(const WorkerKey& key);

  void Dealt(const Segment& segment);

  // A message as a worker's session made it; told again when it is sent again.
  void Made(const Message& message, bool poisoned);
  // It is written down which server holds which shard.
  void WrittenDown(const std::vector<uint32_t>& owners) { owners_ = owners; }
  // What a shard sends to a worker, from that server.
  void Answered(const Message& message, uint32_t server);
  void CutOrdered(const TakeCheckpoint& command);
  void CutTaken(uint32_t shard, const ShardCut& cut);

  // This run goes on from a checkpoint of the other, with these parts.
  void GoOnFrom(const Oracle& other, const CheckpointManifest& manifest,
                const std::vector<ShardSnapshot>& shards);
  // A worker begins with what the checkpoint has of it.
  void Loaded(const WorkerKey& key, uint32_t slice, std::span<const float> state);

  // The answer to a pull with the weights that the shard has then, and the weights that a worker
  // has once it installed the answer: where only what changed travels, they are the same all the
  // same.
  void Showed(const Message& answer, const std::vector<std::pair<uint32_t, Bytes>>& weights);
  void Installed(const WorkerKey& key, uint32_t slice, const PulledSlice& pulled,
                 std::span<const float> weights);

  // After the end of the run: every slice's weights. `drained`: it ended before its training was
  // done.
  void Ended(const std::map<uint32_t, std::vector<float>>& weights, bool drained);
  // A lossy codec's books: what a member's gradients amount to and what it still keeps.
  void Accumulated(uint32_t slice, uint64_t clock, std::span<const float> gradient);
  void Keeps(const WorkerKey& key, uint32_t slice, std::span<const float> residual);

  void Breach(const std::string& what);
  const std::vector<std::string>& breaches() const { return breaches_; }

  struct Counts {
    uint64_t pulls_checked = 0;
    uint64_t cuts_checked = 0;
    uint64_t pushes_made = 0;
    uint64_t pushes_in_doubt = 0;  // made, never acknowledged
    uint64_t waited = 0;           // pulls whose worker was ahead of the slowest
    uint64_t late = 0;             // pulls whose weights lacked a late worker's clock
    uint64_t changes_checked = 0;  // slices of which only what changed had come
    uint64_t passes = 0;           // over the data, after which another one began
    uint64_t uneven = 0;           // segments in which some workers take more steps than others
    uint64_t dealt_again = 0;      // batches, because the worker that had them was out
  };
  const Counts& counts() const { return counts_; }

 private:
  using Batch = std::pair<uint32_t, uint32_t>;  // epoch, index
  using Marks = std::bitset<kRegister>;         // the updates that are in some weights
  struct MadePush {
    uint64_t clock = 0;
    std::vector<uint32_t> slices;
    std::map<uint32_t, Marks> bases;  // by slice: what the weights had that it was computed from
    bool poisoned = false;
    bool unheard = false;  // its worker was in quarantine at that shard
  };
  // What a shard must think of a worker's pushes.
  struct Soundness {
    int bad = 0;  // without a fully sound clock between them
    uint64_t bad_clock = 0;
    uint64_t pushed_clock = 0;  // the latest with a sound push that is not empty
    bool quarantined = false;
  };
  struct PullMade {
    uint64_t clock = 0;
    uint64_t own_clock = 0;
  };
  struct MemberBooks {
    WorkerKey key;
    bool in = true;
    uint64_t first_clock = 0;                                 // of its first segment
    std::map<uint64_t, std::vector<Batch>> steps;             // batches, by clock
    std::map<uint64_t, PullMade> pulls;                       // by request
    std::map<uint32_t, std::map<uint64_t, MadePush>> pushes;  // shard -> seq
    std::map<uint32_t, uint64_t> acknowledged;                // shard -> pushes below this
    std::map<uint32_t, Soundness> soundness;                  // by shard
    std::map<uint32_t, Marks> installed;                      // by slice
  };
  struct OrderedCut {
    uint64_t clock = 0;
    std::vector<uint32_t> savers;
  };
  using Applied = std::array<int, kRegister>;

  std::string Name(uint32_t member) const;
  // Reads the register of a slice.
  Applied ReadRegister(std::span<const float> weights) const;
  // Whether the member's push of the clock has the slice.
  bool Carries(uint32_t member, uint64_t clock, uint32_t slice) const;
  // The push of that member, clock and slice; null when none was made.
  const MadePush* Find(uint32_t member, uint64_t clock, uint32_t slice) const;
  void CheckPull(uint32_t shard, const Message& message);
  // Clocks up to `clock` that no weights lack: with a quorum, those of whole segments.
  uint64_t Whole(uint64_t clock) const;
  // Each update that is in was computed from weights whose updates are in, too.
  void CheckBases(const std::string& where, uint32_t slice, const Applied& applied);
  // Of an earlier run's updates, exactly those of the checkpoint are in.
  void CheckEarlier(const std::string& where, uint32_t slice, const Applied& applied);
  // Registers agree with contents, and nothing is in that was never made or was refused.
  void CheckSlice(const std::string& where, uint32_t slice, std::span<const float> weights);
  void CheckCutSlice(const std::string& where, const OrderedCut& cut, uint32_t slice,
                     std::span<const float> weights);
  void CheckCutStates(const std::string& where, const OrderedCut& cut, uint32_t shard,
                      const ShardSnapshot& snapshot);
  // A batch is dealt again only if the worker that had it is out.
  void Deal(const Batch& batch, uint32_t member);
  // Notes the push, which is next in order, and whether the shard may hear it.
  void CountSoundness(const Push& push, Soundness* soundness, MadePush* made);
  bool IsQuarantined(uint32_t member) const;
  // One of this run, not of an earlier one.
  bool AnyQuarantined() const;
  // Whether a batch may be undone after the run's last worker went into quarantine: its holder is
  // in quarantine, or the pass had not ended and nobody has it. `holder`: nullopt if it was never
  // dealt.
  bool MayBeUndone(uint32_t epoch, std::optional<uint32_t> holder) const;
  // Every batch of every epoch is in, but for those that came back too late.
  void CheckBatches(const std::map<uint32_t, Applied>& applied, bool drained);
  void CheckWholeMessages(const std::map<uint32_t, Applied>& applied);
  // initial - weights + residuals == all gradients of clocks up to `clock`.
  void CheckBooks(const std::string& where, uint64_t clock, uint32_t slice,
                  std::span<const float> weights, const std::vector<std::span<const float>>& kept);

  bool pulls_changes() const { return scenario_.config.compression().pull().has_delta(); }
  bool lossy() const { return !scenario_.config.compression().push().has_none(); }

  const Scenario& scenario_;
  Placement placement_;
  std::optional<Fragments> fragments_;
  std::vector<MemberBooks> members_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;  // (worker, incarnation) -> member
  std::map<uint64_t, OrderedCut> cuts_;
  std::map<Batch, uint32_t> holders_;  // the member to which a batch was dealt last
  std::set<Batch> late_;               // left undone when the next epoch had begun
  uint32_t epoch_ = 0;                 // the latest
  uint64_t last_step_ = 0;
  // Of the run whose checkpoint this run goes on from. The first members are its own.
  struct Earlier {
    uint32_t members = 0;
    Placement placement;
    uint64_t clock = 0;             // of the checkpoint
    uint32_t epoch = 0;             // likewise
    std::set<uint32_t> remaining;   // batches of that epoch that are still to be dealt
    std::map<uint32_t, Marks> has;  // by slice: the updates that are in the checkpoint
    // How many states a worker of this run begins a slice with.
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> states;
  };
  std::optional<Earlier> earlier_;
  std::set<uint64_t> ends_;  // last clocks of segments
  // Lossy codecs: sums of gradients by slice and clock; residuals by slice and member.
  std::map<uint32_t, std::map<uint64_t, std::vector<float>>> accumulated_;
  std::map<uint32_t, std::map<uint32_t, std::vector<float>>> kept_;
  // By slice and version: what travelled whole, or where changes do, what the shards had.
  std::map<std::pair<uint32_t, uint64_t>, Bytes> shown_;
  std::vector<uint32_t> owners_;  // by shard; empty: nobody else may hold any
  std::vector<std::string> breaches_;
  Counts counts_;
};

std::span<const float> AsFloats(const Bytes& bytes);

}  // namespace psgd::sim
