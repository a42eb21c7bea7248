// The record of a run in etcd, under three keys. Thread-safe.
//   /psgd/RUN/record   RunRecord
//   /psgd/RUN/plan     RunPlan, once training has begun
//   /psgd/RUN/leader   the address of the leading server, with a lease that this server keeps alive
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "net/etcd/etcd_client.h"
#include "net/run_store.h"

namespace psgd {

class EtcdRunStore final : public RunStore {
 public:
  // `run`: the run's name. `silence`: how long a leader may be silent before another server may
  // lead. Rounded up to whole seconds, since etcd counts in seconds.
  EtcdRunStore(EtcdOptions etcd, std::string run, Duration silence);

  absl::StatusOr<Held> Read() override;
  absl::StatusOr<RunPlan> ReadPlan() override;
  absl::StatusOr<int64_t> Write(int64_t revision, const RunRecord& next, const RunPlan* plan,
                                As as) override;
  absl::Status Keep(uint64_t epoch) override;
  absl::Status Remove(int64_t revision) override;
  bool shared() const override { return true; }

  const std::string& run() const { return run_; }

 private:
  // Also puts the leader's key under this server's lease. Tries again if the lease ran out
  // meanwhile.
  absl::StatusOr<etcdserverpb::TxnResponse> TxnWithLease(etcdserverpb::TxnRequest request);
  absl::StatusOr<int64_t> Lease();
  // Whether a leader keeps its lease alive. A lease is one second longer than the allowed silence;
  // a leader that renews the lease in time never reaches that last second.
  absl::StatusOr<bool> IsKept(const etcdserverpb::RangeResponse& leader);
  // Returns the condition that no other server leads the run. Before that, renews this server's
  // lease, and revokes the lease of a leader that stopped renewing it: that lease would block a
  // successor until its last second is over.
  absl::StatusOr<etcdserverpb::Compare> NobodyElseLeads();
  // Renews the lease of an earlier attempt to lead. It could end soon after this server takes the
  // lead, and the next server would take the lead at once.
  absl::Status RenewLease();
  etcdserverpb::Compare RecordIsAt(int64_t revision) const;
  absl::Status SomebodyElse() const;

  EtcdClient etcd_;
  const std::string run_, record_key_, plan_key_, leader_key_, ended_key_;
  const int64_t silence_seconds_;
  std::mutex changing_;  // one change at a time; guards the next two
  std::string address_;  // the leader's address in the last write
  std::string run_id_;   // in the last write; empty: there was none
  // A renewal of the lease waits for no change, which a member that does not answer may delay.
  std::atomic<int64_t> lease_{0};  // 0: no lease
};

// A name is at most 64 letters, digits, '.', '_' and '-'.
absl::Status CheckRunName(const std::string& run);

// FAILED_PRECONDITION: the text under `key` is not a run's record.
absl::StatusOr<RunRecord> ParseRunRecord(const std::string& text, const std::string& key);

// Returns the addresses of the run's servers that may be there, the leader first. NOT_FOUND: etcd
// has no such run.
absl::StatusOr<std::vector<std::string>> ServersOf(RunStore& store, const std::string& run);

}  // namespace psgd
