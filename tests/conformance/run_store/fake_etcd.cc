#include "tests/conformance/run_store/fake_etcd.h"

#include "absl/strings/str_cat.h"

namespace psgd {

namespace pb = etcdserverpb;

namespace {
const grpc::Status& Away() {
  static const grpc::Status away(grpc::StatusCode::UNAVAILABLE, "it is away");
  return away;
}
}  // namespace

FakeEtcd::FakeEtcd() {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(32 << 20);
  builder.RegisterService(static_cast<pb::KV::Service*>(this));
  builder.RegisterService(static_cast<pb::Lease::Service*>(this));
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeEtcd::~FakeEtcd() { server_->Shutdown(); }

void FakeEtcd::LoseAnswers(int count) {
  std::lock_guard lock(mutex_);
  lose_ = count;
}

void FakeEtcd::Refuse(const grpc::Status& status) {
  std::lock_guard lock(mutex_);
  refusal_ = status;
}

void FakeEtcd::SetAway(bool away) {
  std::lock_guard lock(mutex_);
  away_ = away;
}

void FakeEtcd::EndLease(int64_t lease) {
  leases_.erase(lease);
  std::erase_if(keys_, [&](const auto& entry) { return entry.second.lease() == lease; });
  ++revision_;
}

void FakeEtcd::PassSeconds(int64_t seconds) {
  std::lock_guard lock(mutex_);
  for (auto& [id, lease] : leases_) lease.left -= seconds;
}

void FakeEtcd::EndLeases() {
  std::lock_guard lock(mutex_);
  while (!leases_.empty()) EndLease(leases_.begin()->first);
}

void FakeEtcd::Write(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  keys_[key].set_key(key);
  keys_[key].set_value(value);
  keys_[key].set_mod_revision(++revision_);
}

std::map<std::string, std::string> FakeEtcd::Contents() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, std::string> contents;
  for (const auto& [key, pair] : keys_) contents[key] = pair.value();
  return contents;
}

size_t FakeEtcd::leases() const {
  std::lock_guard lock(mutex_);
  return leases_.size();
}

bool FakeEtcd::Holds(const pb::Compare& compare) const {
  const auto at = keys_.find(compare.key());
  if (compare.target() == pb::Compare::MOD) {
    return (at == keys_.end() ? 0 : at->second.mod_revision()) == compare.mod_revision();
  }
  if (compare.target() == pb::Compare::LEASE) {
    return at != keys_.end() && at->second.lease() == compare.lease();
  }
  return compare.target() == pb::Compare::VERSION && (at != keys_.end()) == (compare.version() > 0);
}

void FakeEtcd::Get(const std::string& key, pb::RangeResponse* reply) const {
  if (const auto at = keys_.find(key); at != keys_.end()) *reply->add_kvs() = at->second;
}

void FakeEtcd::Do(const pb::RequestOp& op, pb::ResponseOp* reply) {
  switch (op.request_case()) {
    case pb::RequestOp::kRequestRange:
      Get(op.request_range().key(), reply->mutable_response_range());
      break;
    case pb::RequestOp::kRequestPut: {
      pb::KeyValue& pair = keys_[op.request_put().key()];
      pair.set_key(op.request_put().key());
      pair.set_value(op.request_put().value());
      pair.set_lease(op.request_put().lease());
      pair.set_mod_revision(revision_);
      reply->mutable_response_put();
      break;
    }
    case pb::RequestOp::kRequestDeleteRange:
      reply->mutable_response_delete_range()->set_deleted(
          static_cast<int64_t>(keys_.erase(op.request_delete_range().key())));
      break;
    default:
      break;
  }
}

grpc::Status FakeEtcd::Range(grpc::ServerContext*, const pb::RangeRequest* request,
                             pb::RangeResponse* reply) {
  std::lock_guard lock(mutex_);
  if (away_) return Away();
  Get(request->key(), reply);
  return grpc::Status::OK;
}

grpc::Status FakeEtcd::Txn(grpc::ServerContext*, const pb::TxnRequest* request,
                           pb::TxnResponse* reply) {
  std::lock_guard lock(mutex_);
  if (away_) return Away();
  if (!refusal_.ok()) return refusal_;
  for (const pb::RequestOp& op : request->success()) {
    const int64_t lease = op.request_put().lease();
    if (lease != 0 && !leases_.contains(lease)) {
      return {grpc::StatusCode::NOT_FOUND, "etcdserver: requested lease not found"};
    }
  }
  bool holds = true;
  for (const pb::Compare& compare : request->compare()) holds = holds && Holds(compare);
  ++revision_;
  for (const pb::RequestOp& op : holds ? request->success() : request->failure()) {
    Do(op, reply->add_responses());
  }
  reply->set_succeeded(holds);
  reply->mutable_header()->set_revision(revision_);
  if (lose_ == 0) return grpc::Status::OK;
  --lose_;
  return Away();
}

grpc::Status FakeEtcd::LeaseGrant(grpc::ServerContext*, const pb::LeaseGrantRequest* request,
                                  pb::LeaseGrantResponse* reply) {
  std::lock_guard lock(mutex_);
  if (away_) return Away();
  reply->set_id(next_lease_++);
  reply->set_ttl(request->ttl());
  leases_[reply->id()] = {request->ttl(), request->ttl()};
  return grpc::Status::OK;
}

grpc::Status FakeEtcd::LeaseRevoke(grpc::ServerContext*, const pb::LeaseRevokeRequest* request,
                                   pb::LeaseRevokeResponse*) {
  std::lock_guard lock(mutex_);
  if (away_) return Away();
  if (!leases_.contains(request->id())) {
    return {grpc::StatusCode::NOT_FOUND, "etcdserver: requested lease not found"};
  }
  EndLease(request->id());
  return grpc::Status::OK;
}

grpc::Status FakeEtcd::LeaseTimeToLive(grpc::ServerContext*,
                                       const pb::LeaseTimeToLiveRequest* request,
                                       pb::LeaseTimeToLiveResponse* reply) {
  std::lock_guard lock(mutex_);
  if (away_) return Away();
  const auto at = leases_.find(request->id());
  reply->set_id(request->id());
  reply->set_ttl(at == leases_.end() ? -1 : at->second.left);
  reply->set_grantedttl(at == leases_.end() ? 0 : at->second.granted);
  return grpc::Status::OK;
}

grpc::Status FakeEtcd::LeaseKeepAlive(
    grpc::ServerContext*,
    grpc::ServerReaderWriter<pb::LeaseKeepAliveResponse, pb::LeaseKeepAliveRequest>* stream) {
  pb::LeaseKeepAliveRequest request;
  while (stream->Read(&request)) {
    std::lock_guard lock(mutex_);
    if (away_) return Away();
    pb::LeaseKeepAliveResponse reply;
    reply.set_id(request.id());
    const auto at = leases_.find(request.id());
    if (at != leases_.end()) reply.set_ttl(at->second.left = at->second.granted);
    stream->Write(reply);
  }
  return grpc::Status::OK;
}

}  // namespace psgd
