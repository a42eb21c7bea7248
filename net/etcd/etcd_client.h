// Calls to an etcd v3 cluster. Only the .cc includes gRPC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/etcd.pb.h"

namespace psgd {

struct EtcdOptions {
  std::vector<std::string> members;  // HOST:PORT of each member of one cluster
  // Null: the connections are plain text.
  std::shared_ptr<const Credentials> credentials;
  Duration patience = std::chrono::milliseconds(800);  // how long one member may take to answer
};

// `text`: HOST:PORT, http://HOST:PORT or https://HOST:PORT, several with commas. Members with https
// get `credentials`. In a run with credentials, members without https must be on this machine.
absl::StatusOr<EtcdOptions> ParseEtcd(const std::string& text,
                                      std::shared_ptr<const Credentials> credentials);

// Thread-safe. If a member does not answer, the next member is asked. UNAVAILABLE: no member
// answers, and the request may still have taken effect; or etcd is full. OUT_OF_RANGE: the
// request is larger than etcd allows. FAILED_PRECONDITION: the peer is not etcd v3, or refuses
// access.
class EtcdClient {
 public:
  explicit EtcdClient(EtcdOptions options);
  ~EtcdClient();

  absl::StatusOr<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request);
  // NOT_FOUND: a lease in the request does not exist.
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request);
  // Returns the number of the new lease.
  absl::StatusOr<int64_t> GrantLease(int64_t seconds);
  // NOT_FOUND: it ran out.
  absl::Status KeepLease(int64_t lease);
  // Rounded down. Below 0: the lease ran out.
  absl::StatusOr<int64_t> SecondsLeft(int64_t lease);
  // NOT_FOUND: it ran out.
  absl::Status RevokeLease(int64_t lease);

 private:
  struct Impl;
  // Asks the members in turn, beginning with the member that answered last.
  template <typename Call>
  absl::Status Ask(Call call);

  const EtcdOptions options_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
