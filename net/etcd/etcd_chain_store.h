// The chain of a run in etcd, under two keys:
//   /psgd/RUN/chain   the chain as JSON
//   /psgd/RUN/leader  the address of the server that leads, with a lease that it keeps alive
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/chain_store.h"
#include "net/etcd/etcd_client.h"
#include "net/etcd/etcd_run_store.h"

namespace psgd {

class EtcdChainStore final : public ChainStore {
 public:
  // `run`: by name. `silence`: of a leader, after which another may lead; in whole seconds, rounded
  // up, since etcd counts those.
  EtcdChainStore(EtcdOptions etcd, std::string run, Duration silence);

  absl::StatusOr<Held> Read() override;
  absl::StatusOr<int64_t> Replace(int64_t revision, const Chain& next, As as) override;
  absl::Status Keep(int64_t revision) override;
  absl::Status Remove(int64_t revision) override;
  bool decides() const override { return true; }

  const std::string& run() const { return run_; }

 private:
  // Once more if the lease ran out meanwhile.
  absl::StatusOr<etcdserverpb::TxnResponse> TxnWithLease(etcdserverpb::TxnRequest request);
  absl::StatusOr<int64_t> Lease();
  // Whether there is a leader that keeps its lease alive: the last second of one begins when it was
  // not renewed in time.
  absl::StatusOr<bool> IsKept(const etcdserverpb::RangeResponse& leader);
  // Of a leader that keeps it alive no more, or it would be in the way until its last second is
  // over.
  absl::Status EndUnkeptLease();
  etcdserverpb::Compare ChainIsAt(int64_t revision) const;

  EtcdClient etcd_;
  const std::string run_, chain_key_, leader_key_;
  const int64_t silence_seconds_;
  std::mutex mutex_;    // one change at a time; guards what follows
  int64_t lease_ = 0;   // 0: it has none
  std::string leader_;  // address, as last written
  Time next_keep_{};
};

// As it lies in etcd. FAILED_PRECONDITION: what lies under `key` is no chain of one server at
// least.
std::string ChainToJson(const Chain& chain);
absl::StatusOr<Chain> ChainFromJson(const std::string& json, const std::string& key);

// Addresses of the servers of the run, the one that leads first. NOT_FOUND: etcd knows no such run.
absl::StatusOr<std::vector<std::string>> ServersOf(ChainStore& store, const std::string& run);

}  // namespace psgd
