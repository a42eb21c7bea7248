// A leader's followers: who is connected, who has written what, and for whom acknowledgements wait.
// docs/durability.md has the rules.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "proto/control.pb.h"
#include "server/control/follower_log.h"

namespace psgd {

// Thread-safe.
class FollowerSet {
 public:
  // Logs are numbered: the shards', and then the coordinator's. `patience`: how long a wait is.
  FollowerSet(uint32_t shards, Duration patience) : shards_(shards), patience_(patience) {}

  uint32_t coordinator_log() const { return shards_; }

  // ALREADY_EXISTS: another server, which is there or waited for, has its number.
  absl::Status CheckNumber(const Chain::Member& follower) const;
  // A follower asks for a log; what it held of it before is closed. Fails as CheckNumber.
  absl::Status Connect(const Chain::Member& follower, uint32_t log,
                       std::shared_ptr<FollowerLog> to);
  // It is no longer there.
  void Disconnect(uint32_t replica, uint32_t log, const FollowerLog* from);

  // From now on waits include it, whether it is connected or not.
  void Require(const Chain::Member& follower);
  // The coordinator's record of that number is the first, or a later one, that says that they are
  // in the chain.
  void NamedBy(uint64_t record, const Chain& chain);
  bool IsRequired(uint32_t replica) const;
  // It is connected, and has written all that had come when it was first required.
  bool HasAllFromBefore(uint32_t replica) const;
  // They do no longer.
  void Forget(uint32_t replica);

  // Somebody has that log sent to it.
  bool HasListeners(uint32_t log) const;
  // To every follower that is connected.
  void Publish(uint32_t log, std::shared_ptr<const LogPart> part, uint64_t last);
  // Until every required follower has written that. UNAVAILABLE names one that has not in time.
  absl::Status WaitWritten(uint32_t log, uint64_t last) const;

  // Who would lead the run, or may soon, and that chain does not know yet: one that is connected,
  // or required.
  std::vector<Chain::Member> NotYetIn(const Chain& chain) const;
  // Connected followers that are not required yet and have written all there is.
  std::vector<Chain::Member> Ready() const;
  std::vector<Chain::Member> Required() const;
  // Required ones of which not every log is connected.
  std::vector<Chain::Member> Missing() const;
  // Required ones that for so long were not there, or have written nothing of what they were sent.
  std::vector<Chain::Member> Gone(Duration patience);
  std::vector<FollowerStatus> Status() const;
  void CloseAll();

 private:
  struct Follower {
    std::string address;
    uint64_t identity = 0;
    bool required = false;
    std::map<uint32_t, std::shared_ptr<FollowerLog>> logs;
    std::map<uint32_t, uint64_t> before;  // by log: the last entry from before it was required
    std::optional<uint64_t> named_by;     // the record that first says that it is in the chain
    std::optional<Time> missing_since;    // as of the last look
  };

  static Chain::Member MemberOf(uint32_t replica, const Follower& follower);
  absl::Status CheckNumberLocked(const Chain::Member& follower) const;
  std::vector<Chain::Member> Those(const std::function<bool(const Follower&)>& wanted) const;
  // Of one that is not connected it is taken to, since it may.
  bool MayLead(const Follower& follower) const;
  bool Connected(const Follower& follower) const { return follower.logs.size() == shards_ + 1; }

  const uint32_t shards_;
  const Duration patience_;
  mutable std::mutex mutex_;
  std::map<uint32_t, Follower> followers_;
};

}  // namespace psgd
