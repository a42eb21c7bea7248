#include "net/etcd/etcd_run_store.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/names.h"
#include "common/units.h"

namespace psgd {
namespace {

namespace pb = etcdserverpb;

// etcd ends leases late, and usually grants at least two seconds. But it tells the time left,
// rounded down: 0 s means the last second.
constexpr int64_t kLastSecond = 1;
constexpr uint64_t kHighestEpoch = uint64_t{1} << 62;  // leaves room for many higher epochs

pb::RequestOp Get(const std::string& key) {
  pb::RequestOp op;
  op.mutable_request_range()->set_key(key);
  return op;
}

pb::RequestOp Delete(const std::string& key) {
  pb::RequestOp op;
  op.mutable_request_delete_range()->set_key(key);
  return op;
}

pb::RequestOp Put(const std::string& key, const std::string& value, int64_t lease = 0) {
  pb::RequestOp op;
  op.mutable_request_put()->set_key(key);
  op.mutable_request_put()->set_value(value);
  op.mutable_request_put()->set_lease(lease);
  return op;
}

pb::Compare IsAbsent(const std::string& key) {
  pb::Compare compare;
  compare.set_target(pb::Compare::VERSION);
  compare.set_key(key);
  compare.set_version(0);
  return compare;
}

pb::Compare IsUnder(const std::string& key, int64_t lease) {
  pb::Compare compare;
  compare.set_target(pb::Compare::LEASE);
  compare.set_key(key);
  compare.set_lease(lease);
  return compare;
}

std::string LeaderOf(const RunRecord& record) {
  for (const RunServer& server : record.servers()) {
    if (server.server() == record.leader()) return server.address();
  }
  return "";
}

}  // namespace

absl::StatusOr<RunRecord> ParseRunRecord(const std::string& text, const std::string& key) {
  RunRecord record;
  if (record.ParseFromString(text) && record.epoch() > 0 && record.epoch() <= kHighestEpoch &&
      !LeaderOf(record).empty() && record.shards_size() > 0) {
    return record;
  }
  return FailedPreconditionError(
      "etcd holds no record of a run under ", key,
      ", or one that this version of psgd cannot read: install the same version everywhere, or see "
      "what somebody else wrote there (etcdctl get ",
      key, ")");
}

EtcdRunStore::EtcdRunStore(EtcdOptions etcd, std::string run, Duration silence)
    : etcd_(std::move(etcd)),
      run_(std::move(run)),
      record_key_(absl::StrCat("/psgd/", run_, "/record")),
      plan_key_(absl::StrCat("/psgd/", run_, "/plan")),
      leader_key_(absl::StrCat("/psgd/", run_, "/leader")),
      ended_key_(absl::StrCat("/psgd/", run_, "/ended")),
      silence_seconds_(
          std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(silence).count())) {}

absl::Status EtcdRunStore::SomebodyElse() const {
  return absl::AbortedError(absl::StrCat("another server leads run ", run_, " by now"));
}

absl::StatusOr<bool> EtcdRunStore::IsKept(const pb::RangeResponse& leader) {
  if (leader.kvs_size() == 0) return false;
  PSGD_ASSIGN_OR_RETURN(const int64_t left, etcd_.SecondsLeft(leader.kvs(0).lease()));
  return left >= kLastSecond;
}

absl::StatusOr<pb::Compare> EtcdRunStore::NobodyElseLeads() {
  PSGD_RETURN_IF_ERROR(RenewLease());
  pb::RangeRequest request;
  request.set_key(leader_key_);
  PSGD_ASSIGN_OR_RETURN(const pb::RangeResponse leader, etcd_.Range(request));
  if (leader.kvs_size() == 0) return IsAbsent(leader_key_);
  const int64_t lease = leader.kvs(0).lease();
  // This server leads already, and did not hear so: the answer to its earlier attempt was lost.
  if (lease == lease_) return IsUnder(leader_key_, lease);
  PSGD_ASSIGN_OR_RETURN(const bool kept, IsKept(leader));
  if (!kept) {
    const absl::Status ended = etcd_.RevokeLease(lease);
    if (!ended.ok() && !absl::IsNotFound(ended)) return ended;
  }
  return IsAbsent(leader_key_);
}

absl::Status EtcdRunStore::RenewLease() {
  if (lease_ == 0) return absl::OkStatus();
  const absl::Status kept = etcd_.KeepLease(lease_);
  if (!absl::IsNotFound(kept)) return kept;
  lease_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<RunStore::Held> EtcdRunStore::Read() {
  // One transaction reads both keys at the same moment.
  pb::TxnRequest request;
  *request.add_success() = Get(record_key_);
  *request.add_success() = Get(leader_key_);
  *request.add_success() = Get(ended_key_);
  PSGD_ASSIGN_OR_RETURN(const pb::TxnResponse reply, etcd_.Txn(request));
  if (reply.responses_size() != 3) {
    return absl::FailedPreconditionError("etcd answered something else than it was asked");
  }
  Held held;
  PSGD_ASSIGN_OR_RETURN(held.led, IsKept(reply.responses(1).response_range()));
  const pb::RangeResponse& record = reply.responses(0).response_range();
  if (record.kvs_size() == 0) {
    for (const pb::KeyValue& pair : reply.responses(2).response_range().kvs())
      held.ended = pair.value();
    return held;
  }
  PSGD_ASSIGN_OR_RETURN(held.record, ParseRunRecord(record.kvs(0).value(), record_key_));
  held.revision = record.kvs(0).mod_revision();
  return held;
}

absl::StatusOr<RunPlan> EtcdRunStore::ReadPlan() {
  pb::RangeRequest request;
  request.set_key(plan_key_);
  PSGD_ASSIGN_OR_RETURN(const pb::RangeResponse reply, etcd_.Range(request));
  if (reply.kvs_size() == 0) return absl::NotFoundError("training has not begun");
  RunPlan plan;
  if (plan.ParseFromString(reply.kvs(0).value()) && plan.has_model()) return plan;
  return FailedPreconditionError("etcd holds no plan of a run under ", plan_key_);
}

pb::Compare EtcdRunStore::RecordIsAt(int64_t revision) const {
  if (revision == 0) return IsAbsent(record_key_);
  pb::Compare compare;
  compare.set_target(pb::Compare::MOD);
  compare.set_key(record_key_);
  compare.set_mod_revision(revision);
  return compare;
}

absl::StatusOr<int64_t> EtcdRunStore::Lease() {
  if (lease_ == 0) {
    PSGD_ASSIGN_OR_RETURN(lease_, etcd_.GrantLease(silence_seconds_ + kLastSecond));
  }
  return lease_.load();
}

absl::StatusOr<pb::TxnResponse> EtcdRunStore::TxnWithLease(pb::TxnRequest request) {
  pb::RequestOp* const leader = request.add_success();
  PSGD_ASSIGN_OR_RETURN(const int64_t lease, Lease());
  *leader = Put(leader_key_, address_, lease);
  auto reply = etcd_.Txn(request);
  if (!absl::IsNotFound(reply.status())) return reply;
  lease_ = 0;
  PSGD_ASSIGN_OR_RETURN(const int64_t another, Lease());
  leader->mutable_request_put()->set_lease(another);
  return etcd_.Txn(request);
}

absl::StatusOr<int64_t> EtcdRunStore::Write(int64_t revision, const RunRecord& next,
                                            const RunPlan* plan, As as) {
  std::lock_guard lock(changing_);
  address_ = LeaderOf(next);
  run_id_ = next.run_id();
  const std::string text = BytesOf(next);
  pb::TxnRequest request;
  *request.add_compare() = RecordIsAt(revision);
  if (as == As::kSuccessor) {
    // A late leader loses its lease here. It takes a new one, and still leads if its write comes
    // before this server's change.
    PSGD_ASSIGN_OR_RETURN(*request.add_compare(), NobodyElseLeads());
  }
  *request.add_success() = Put(record_key_, text);
  if (plan != nullptr) *request.add_success() = Put(plan_key_, plan->SerializeAsString());
  *request.add_failure() = Get(record_key_);
  const size_t bytes = request.ByteSizeLong();
  const auto answer = TxnWithLease(std::move(request));
  if (absl::IsOutOfRange(answer.status())) {
    return OutOfRangeError("the record of run ", run_,
                           " cannot be stored. It grows with workers, shards and tensors; ",
                           "the change has ", HumanBytes(static_cast<double>(bytes)), ", and ",
                           answer.status().message(),
                           ", and then the run's servers with --recover");
  }
  PSGD_ASSIGN_OR_RETURN(const pb::TxnResponse reply, answer);
  if (reply.succeeded()) return reply.header().revision();
  // The record may hold this change already, if an earlier answer was lost. Only the leader that
  // the record names writes it.
  for (const pb::ResponseOp& response : reply.responses()) {
    for (const pb::KeyValue& pair : response.response_range().kvs()) {
      if (pair.value() == text) return pair.mod_revision();
    }
  }
  return SomebodyElse();
}

absl::Status EtcdRunStore::Keep(uint64_t epoch) {
  absl::Status kept = absl::NotFoundError("");
  const int64_t lease = lease_;
  if (lease != 0) kept = etcd_.KeepLease(lease);
  if (absl::IsNotFound(kept)) {
    std::lock_guard lock(changing_);
    if (lease_ != lease) return absl::OkStatus();  // a change took a new lease meanwhile
    lease_ = 0;
    PSGD_ASSIGN_OR_RETURN(const Held held, Read());
    // A later run of the same name has epochs of its own.
    const bool same_run = run_id_.empty() || held.record.run_id() == run_id_;
    if (held.revision == 0 || !same_run || held.record.epoch() != epoch) return SomebodyElse();
    pb::TxnRequest request;
    *request.add_compare() = RecordIsAt(held.revision);
    PSGD_ASSIGN_OR_RETURN(const pb::TxnResponse reply, TxnWithLease(std::move(request)));
    return reply.succeeded() ? absl::OkStatus() : SomebodyElse();
  }
  return kept;
}

absl::Status EtcdRunStore::Remove(int64_t revision) {
  std::lock_guard lock(changing_);
  pb::TxnRequest request;
  *request.add_compare() = RecordIsAt(revision);
  *request.add_success() = Delete(record_key_);
  *request.add_success() = Delete(plan_key_);
  *request.add_success() = Delete(leader_key_);
  *request.add_success() = Put(ended_key_, run_id_);
  PSGD_ASSIGN_OR_RETURN(const pb::TxnResponse reply, etcd_.Txn(request));
  if (!reply.succeeded()) return SomebodyElse();
  const int64_t lease = lease_.exchange(0);
  if (lease != 0) (void)etcd_.RevokeLease(lease);  // otherwise it expires by itself
  return absl::OkStatus();
}

absl::Status CheckRunName(const std::string& run) {
  if (IsName(run)) return absl::OkStatus();
  return InvalidArgumentError(
      "\"", run,
      "\" cannot name a run in etcd: 1 to 64 letters, digits, dots, dashes and underscores");
}

absl::StatusOr<std::vector<std::string>> ServersOf(RunStore& store, const std::string& run) {
  PSGD_ASSIGN_OR_RETURN(const RunStore::Held held, store.Read());
  if (held.revision == 0) {
    return NotFoundError(
        "etcd knows no run called ", run,
        "; is that its name, does its server run with --etcd, and is it not over?");
  }
  std::vector<std::string> servers = {LeaderOf(held.record)};
  for (const RunServer& server : held.record.servers()) {
    if (server.server() != held.record.leader() && !server.gone())
      servers.push_back(server.address());
  }
  return servers;
}

}  // namespace psgd
