// Calls to an etcd cluster, v3. Hides gRPC: only the .cc includes it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/etcd.pb.h"

namespace psgd {

struct EtcdOptions {
  std::vector<std::string> members;  // HOST:PORT, of one cluster
  // Null: they are talked to in plain text.
  std::shared_ptr<const Credentials> credentials;
  Duration patience = std::chrono::milliseconds(800);  // for one member's answer
};

// HOST:PORT, http://HOST:PORT or https://HOST:PORT, several with commas. `credentials` are shown to
// members that are https; others have to be of this machine if there are any.
absl::StatusOr<EtcdOptions> ParseEtcd(const std::string& text,
                                      std::shared_ptr<const Credentials> credentials);

// Thread-safe. A member that does not answer is left for the next one. UNAVAILABLE: none answers;
// what was asked for may have come to pass. FAILED_PRECONDITION: what answers is not etcd v3, or
// does not let us in.
class EtcdClient {
 public:
  explicit EtcdClient(EtcdOptions options);
  ~EtcdClient();

  absl::StatusOr<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request);
  // NOT_FOUND: a lease that it names is not there.
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request);
  // Its number.
  absl::StatusOr<int64_t> GrantLease(int64_t seconds);
  // NOT_FOUND: it ran out.
  absl::Status KeepLease(int64_t lease);
  // Rounded down; below 0: it ran out.
  absl::StatusOr<int64_t> SecondsLeft(int64_t lease);
  // NOT_FOUND: it ran out.
  absl::Status RevokeLease(int64_t lease);

 private:
  struct Impl;
  // Asks the members in turn.
  template <typename Call>
  absl::Status Ask(Call call);

  const EtcdOptions options_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
