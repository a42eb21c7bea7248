// The part of etcd that a run store needs, in this process. A test sets in advance which calls
// fail.
#pragma once

#include <grpcpp/server_builder.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "proto/etcd.grpc.pb.h"

namespace psgd {

// Thread-safe.
class FakeEtcd final : public etcdserverpb::KV::Service, public etcdserverpb::Lease::Service {
 public:
  FakeEtcd();
  ~FakeEtcd() override;

  const std::string& address() const { return address_; }
  // Carries out the next `count` transactions, but answers that etcd was unreachable.
  void LoseAnswers(int count);
  // Refuses every transaction with this status, unless it is OK.
  void Refuse(const grpc::Status& status);
  // While away, carries out no call.
  void SetAway(bool away);
  // Lets time pass without a renewal. Ends no lease, since etcd ends leases late.
  void PassSeconds(int64_t seconds);
  // Ends all leases, as if their time had passed.
  void EndLeases();
  void Write(const std::string& key, const std::string& value);
  // Returns all keys and values.
  std::map<std::string, std::string> Contents() const;
  size_t leases() const;

  grpc::Status Range(grpc::ServerContext*, const etcdserverpb::RangeRequest* request,
                     etcdserverpb::RangeResponse* reply) override;
  grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
                   etcdserverpb::TxnResponse* reply) override;
  grpc::Status LeaseGrant(grpc::ServerContext*, const etcdserverpb::LeaseGrantRequest* request,
                          etcdserverpb::LeaseGrantResponse* reply) override;
  grpc::Status LeaseRevoke(grpc::ServerContext*, const etcdserverpb::LeaseRevokeRequest* request,
                           etcdserverpb::LeaseRevokeResponse* reply) override;
  grpc::Status LeaseKeepAlive(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<etcdserverpb::LeaseKeepAliveResponse,
                               etcdserverpb::LeaseKeepAliveRequest>* stream) override;
  grpc::Status LeaseTimeToLive(grpc::ServerContext*,
                               const etcdserverpb::LeaseTimeToLiveRequest* request,
                               etcdserverpb::LeaseTimeToLiveResponse* reply) override;

 private:
  // REQUIRES for the functions below: mutex_ is held.
  bool Holds(const etcdserverpb::Compare& compare) const;
  void Do(const etcdserverpb::RequestOp& op, etcdserverpb::ResponseOp* reply);
  void Get(const std::string& key, etcdserverpb::RangeResponse* reply) const;
  void EndLease(int64_t lease);

  mutable std::mutex mutex_;  // guards the members below, except the server
  std::map<std::string, etcdserverpb::KeyValue> keys_;
  struct Lease {
    int64_t granted = 0, left = 0;  // seconds
  };
  std::map<int64_t, Lease> leases_;  // by lease number
  int64_t revision_ = 1;
  int64_t next_lease_ = 7000;
  int lose_ = 0;
  bool away_ = false;
  grpc::Status refusal_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace psgd
