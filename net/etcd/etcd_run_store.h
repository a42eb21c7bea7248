// The record of a run in etcd, under three keys:
//   /psgd/RUN/record   RunRecord
//   /psgd/RUN/plan     RunPlan, once training has begun
//   /psgd/RUN/leader   the address of the server that leads, with a lease that it keeps alive
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/etcd/etcd_client.h"
#include "net/run_store.h"

namespace psgd {

class EtcdRunStore final : public RunStore {
 public:
  // `run`: by name. `silence`: of a leader, after which another server may lead; in whole seconds,
  // rounded up, since etcd counts those.
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
  // Puts the leader's key under this server's lease, too; once more if the lease ran out meanwhile.
  absl::StatusOr<etcdserverpb::TxnResponse> TxnWithLease(etcdserverpb::TxnRequest request);
  absl::StatusOr<int64_t> Lease();
  // Whether there is a leader that keeps its lease alive. A lease has one second more than the
  // silence that is borne; a leader that renews it in time never gets there.
  absl::StatusOr<bool> IsKept(const etcdserverpb::RangeResponse& leader);
  // Revokes the lease of a leader that keeps it alive no more: it would be in the way until its
  // last second is over.
  absl::Status EndUnkeptLease();
  etcdserverpb::Compare RecordIsAt(int64_t revision) const;
  absl::Status SomebodyElse() const;

  EtcdClient etcd_;
  const std::string run_, record_key_, plan_key_, leader_key_;
  const int64_t silence_seconds_;
  std::mutex mutex_;     // one change at a time; guards what follows
  int64_t lease_ = 0;    // 0: it has none
  std::string address_;  // of the leader, as last written
  Time next_keep_{};
};

// Letters, digits, '.', '_' and '-', at most 64.
absl::Status CheckRunName(const std::string& run);

// FAILED_PRECONDITION: what lies under `key` is no record of a run.
absl::StatusOr<RunRecord> ParseRunRecord(const std::string& text, const std::string& key);

// Addresses of the servers of the run, the one that leads it first. NOT_FOUND: etcd knows no such
// run.
absl::StatusOr<std::vector<std::string>> ServersOf(RunStore& store, const std::string& run);

}  // namespace psgd
