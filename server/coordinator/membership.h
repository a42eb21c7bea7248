// Who is in: identities, incarnations and leases. No IO: time is handed in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/metrics.h"
#include "common/status.h"
#include "proto/control.pb.h"

namespace psgd {

struct MemberState {
  WorkerKey key;
  std::string name;
  std::string device;
  uint64_t attempt = 0;  // JoinRequest
  bool live = false;
  bool registered = false;  // its model matches the run's
  std::string note;         // why it is no longer live
  Time last_heard{};
  uint64_t clock = 0;         // as it last reported: never more than it has done
  uint64_t joined_after = 0;  // the latest segment when it joined: it takes part in later ones
  uint64_t finished_segment = 0;
  uint64_t reports = 0;        // that were counted, by their numbers
  uint64_t samples_since = 0;  // last_report
  double samples_per_second = 0;
  double recent_loss = 0;  // over its last report
  double recent_accuracy = 0;
  double residual_norm = 0;                   // of what its codecs left behind, as it last reported
  double input_stall = 0;                     // share of that report's time spent waiting for data
  CodecChoices choices;                       // the latest it reported
  bool leaving = false;                       // it was asked to leave
  CountHistogram pull_staleness;              // of its pulls
  CountHistogram push_latency, pull_latency;  // common/latency.h
  Time last_report{};                         // that the speed was told by
};

// Leases count the time in which workers could have been heard: not the time in which this process
// stood still, and not the steps of its clock. Not thread-safe.
class Membership {
 public:
  explicit Membership(Duration lease, uint32_t first_incarnation = 1)
      : lease_(lease), first_incarnation_(first_incarnation) {}

  // Takes the lowest identity that no live worker holds.
  MemberState& Join(const std::string& name, const std::string& device, Time now);
  // The live member that joined with it; null: none did.
  MemberState* JoinedBy(uint64_t attempt);
  // The live member with exactly this key, its lease renewed; otherwise an error that says whether
  // it was never here, has left, or was replaced.
  absl::StatusOr<MemberState*> Touch(const WorkerKey& key, Time now);
  // As it was before the server was started again.
  void Restore(MemberState member) { members_[member.key.worker()] = std::move(member); }
  // Nobody could be heard until now.
  void RenewAll(Time now) {
    now_ = now;
    for (auto& [worker, member] : members_) member.last_heard = now;
  }
  void Leave(uint32_t worker, std::string note);
  // Live members that have been silent for longer than the lease.
  std::vector<uint32_t> Expired(Time now);

  // Live, registered members by ascending identity.
  std::vector<uint32_t> Ready() const;
  bool IsLive(uint32_t worker) const;
  const MemberState* Find(uint32_t worker) const;
  MemberState* Find(uint32_t worker);
  const std::map<uint32_t, MemberState>& all() const { return members_; }
  Duration lease() const { return lease_; }

 private:
  void PassTime(Time now);

  const Duration lease_;
  const uint32_t first_incarnation_;
  std::map<uint32_t, MemberState> members_;
  std::optional<Time> now_;  // as it was told last
};

}  // namespace psgd
