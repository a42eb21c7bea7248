// The other servers' copies of a shard, as the leading copy here sees them: which of them it waits
// for, which are silent or caught up, and the steps that it keeps for them and sends. copy_core.h
// tells how they begin to follow, and how they become and cease to be in sync.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/clock.h"
#include "server/cluster/copy_message.h"
#include "server/cluster/kept_steps.h"
#include "server/durability/durable_shard.h"

namespace psgd {

// Not thread-safe.
class OtherCopies {
 public:
  explicit OtherCopies(const CopyOptions& options) : options_(options) {}

  // The copy here wrote these steps, and has what `shard` has. A copy that follows keeps its steps,
  // too: it may lead later.
  void Keep(std::vector<JournalEntry> steps, const DurableShard& shard);
  // Forgets the kept steps. The next one is the step after the last of `shard`.
  void KeepNone(const DurableShard& shard) { kept_ = KeptSteps(shard.entries() + 1); }
  // The copy here leads under this epoch from now on, with so many steps. `earlier_epoch`: of its
  // journal before.
  void BeginEpoch(uint64_t epoch, uint64_t earlier_epoch, uint64_t entries);
  // The copy here does not lead any more.
  void End();
  // These are in sync. `heard`: the CopyState.report that `in_sync` takes into account.
  void SetInSync(const std::set<uint32_t>& in_sync, uint64_t heard, Time now);

  void OnHas(uint32_t from, const CopyMessage::Has& has, Time now);
  void OnTakesImage(uint32_t from, Time now);
  void OnWritten(uint32_t from, uint64_t entries, Time now);
  // The copy has a new link to this one, or none.
  void OnLinkChanged(uint32_t server);
  void OnLinkBroke(uint32_t server, Time now);
  // Finds silent copies. `lost`: how long this process stood still since the last call.
  void Tick(Time now, Duration lost);
  // Tells copies that asked where to begin, and sends steps to the others.
  void SendSteps(DurableShard* shard, uint64_t checkpoint_done, Time now,
                 std::vector<CopySend>* sends);
  // If too much is kept, copies that nobody waits for get no more steps until they ask again. A
  // copy that began with an image still gets them: workers wait for it.
  void LeaveLaggardsBehind();
  bool KeepsTooMuch() const { return kept_.bytes() > 2 * most_kept_; }

  // How many steps every awaited copy has.
  uint64_t Committed() const;
  bool AnyBeganAnew() const;
  bool empty() const { return others_.empty(); }

  // See CopyState.
  const std::map<uint32_t, uint64_t>& caught_up() const { return caught_up_; }
  const std::set<uint32_t>& silent() const { return silent_; }
  uint64_t report() const { return report_; }

 private:
  struct Other {
    bool streams = false;  // the copy was told where to begin, and gets every step
    uint64_t copy = 0;     // AssignedCopy.copy
    uint64_t sent = 0;     // steps up to this one
    uint64_t written = 0;
    std::optional<CopyMessage::Has> asked;  // the copy waits to be told where to begin
    std::optional<uint64_t>
        waited_from;            // the copy is caught up once it has the steps up to this one
    Time heard{};               // since when it is silent, if it is
    std::optional<Time> broke;  // when its link broke; nullopt: it did not, or is new
    Time told{};
    bool takes_image = false;  // an image is on its way, or is being written
    bool began_anew = false;   // with an image, and is not waited for yet
    Duration image_pause{};    // grows with each image of which nothing was written
    Time next_image{};         // before this time it gets no image
  };

  bool IsBeginning(const CopyMessage::Has& has) const;
  void Begin(uint32_t server, Other* other, DurableShard* shard, Time now,
             std::vector<CopySend>* sends);
  void BeginsLater(uint32_t server);
  bool WaitsFor(uint32_t server) const {
    return in_sync_.contains(server) || waited_.contains(server);
  }
  void CatchUp(uint32_t server, Other* other);
  void FallBack(uint32_t server);
  bool IsSilent(const Other& other, Time now) const;
  void ForgetKept();

  const CopyOptions options_;
  KeptSteps kept_;        // up to the last step of the copy here
  size_t most_kept_ = 0;  // bytes, unless a copy needs more
  uint64_t epoch_ = 0;
  uint64_t earlier_epoch_ = 0;  // epoch of the leading copy's journal before this epoch
  uint64_t began_at_ = 0;       // how many steps the leading copy had when its epoch began
  std::set<uint32_t> in_sync_;
  std::set<uint32_t> waited_;  // servers that are waited for, but not stored as in sync
  std::map<uint32_t, uint64_t> caught_up_;  // by server: AssignedCopy.copy
  std::set<uint32_t> silent_;
  uint64_t report_ = 0;  // see CopyState; goes on from epoch to epoch
  std::map<uint32_t, uint64_t>
      unwaited_after_;  // by server: the report that it is no longer caught up
  std::map<uint32_t, Other> others_;
};

}  // namespace psgd
