// Which workers are in: numbers, incarnations and leases. No IO: the caller hands in the time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/standstill.h"
#include "common/status.h"
#include "proto/control.pb.h"
#include "proto/journal.pb.h"
#include "server/coordinator/report_histograms.h"

namespace psgd {

struct MemberState {
  CoordinatorMemberRecord record;
  Time last_heard{};
  uint64_t samples_since = 0;  // since last_report
  double samples_per_second = 0;
  // Steps a second of its own time; 0: it has computed nothing yet.
  double StepsPerSecond() const {
    return record.recent_busy() > 0 ? record.recent_steps() / record.recent_busy() : 0;
  }
  // A worker that joined later counts as past earlier segments: it may stand in for the workers
  // that finished them, who may be gone.
  uint64_t PastSegment() const {
    return std::max(record.finished_segment(), record.joined_after());
  }
  double recent_loss = 0;  // over the last report
  double recent_accuracy = 0;
  double input_stall = 0;       // share of the last report's time spent waiting for data
  std::string detour;           // of the last report
  ReportHistograms histograms;  // since its join, or since this server began
  Time last_report{};           // from which the speed was computed

  // Takes over what the report says, except its number and the norm of its residual.
  void Count(const WorkerReport& report, Time now);
};

// Leases count only the time in which workers could be heard. The time in which this process stood
// still, and jumps of its clock, do not count. Not thread-safe.
class Membership {
 public:
  explicit Membership(Duration lease, uint32_t first_incarnation = 1)
      : lease_(lease),
        first_incarnation_(first_incarnation),
        standstill_(std::max<Duration>(lease / 4, kLongestTick)) {}

  // Takes the wanted number, if there is one and no live worker holds it; else the lowest that no
  // live worker holds.
  MemberState& Join(const std::string& name, const std::string& device, Time now,
                    std::optional<uint32_t> wanted = std::nullopt);
  // The live member that joined with this attempt; null: there is none.
  MemberState* JoinedBy(uint64_t attempt);
  // Renews the lease of the live member with exactly this key. Otherwise the error says whether the
  // worker was never here, has left, or was replaced.
  absl::StatusOr<MemberState*> Touch(const WorkerKey& key, Time now);
  void Leave(uint32_t worker, std::string note);
  // Live members that have been silent for longer than the lease.
  std::vector<uint32_t> Expired(Time now);

  // Live, registered members by ascending number.
  std::vector<uint32_t> Ready() const;
  // The latest segment that every ready worker has finished; UINT64_MAX: no worker is ready.
  uint64_t FinishedByAll() const;
  // The latest segment that any ready worker has finished; 0: there is none.
  uint64_t MostFinished() const;
  // Each worker's steps in the time in which the fastest of them takes `most`; `most`
  // for a worker that has computed nothing yet.
  std::vector<uint32_t> StepsFor(const std::vector<uint32_t>& workers, uint32_t most) const;
  // The norm of the residuals of all workers.
  double Residual() const;
  // The live member of that name; null: there is none.
  const MemberState* LiveNamed(const std::string& name) const;
  const MemberState* Find(uint32_t worker) const;
  MemberState* Find(uint32_t worker);
  // The live member with exactly this key; null: there is none.
  const MemberState* FindLive(const WorkerKey& key) const;
  const std::map<uint32_t, MemberState>& all() const { return members_; }
  int live() const;
  // Whether the worker that got furthest has left because training diverged.
  bool LastDiverged() const;
  // Adds the workers, and what they say of the training, to the status.
  void Show(Time now, StatusReply* status) const;

  void Save(CoordinatorRecord* record) const;
  // Workers can be heard only from now on: all leases start anew. REQUIRES: nobody has joined.
  void Restore(const CoordinatorRecord& record, Time now);

 private:
  // While the process runs, the time is handed in at least this often.
  static constexpr Duration kLongestTick = std::chrono::milliseconds(300);

  void PassTime(Time now);
  uint32_t LowestFree() const;

  const Duration lease_;
  const uint32_t first_incarnation_;
  std::map<uint32_t, MemberState> members_;
  Standstill standstill_;
  Time look_again_{};  // no lease ends before
};

}  // namespace psgd
