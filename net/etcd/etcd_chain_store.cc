#include "net/etcd/etcd_chain_store.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

namespace pb = etcdserverpb;

// What a lease lasts beyond the silence that is borne. etcd ends leases late, and grants two
// seconds at least as a rule; but it tells what is left of one, rounded down: 0 s are the last
// second.
constexpr int64_t kLastSecond = 1;
constexpr int kKeepsPerSilence = 3;
constexpr uint64_t kHighestEpoch = uint64_t{1} << 62;  // which leaves room for many that are higher

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

}  // namespace

std::string ChainToJson(const Chain& chain) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  (void)google::protobuf::util::MessageToJsonString(chain, &json, options);
  return json;
}

absl::StatusOr<Chain> ChainFromJson(const std::string& json, const std::string& key) {
  Chain chain;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &chain);
  const bool sound =
      parsed.ok() && chain.members_size() > 0 && chain.epoch() <= kHighestEpoch &&
      std::all_of(chain.members().begin(), chain.members().end(), [](const Chain::Member& member) {
        return member.replica() > 0 && !member.address().empty();
      });
  if (sound) return chain;
  return absl::FailedPreconditionError(
      absl::StrCat("etcd holds no chain under ", key,
                   ", or one that this version of psgd cannot read: install the "
                   "same version everywhere, or see what somebody else wrote there (etcdctl get ",
                   key, ")"));
}

EtcdChainStore::EtcdChainStore(EtcdOptions etcd, std::string run, Duration silence)
    : etcd_(std::move(etcd)),
      run_(std::move(run)),
      chain_key_(absl::StrCat("/psgd/", run_, "/chain")),
      leader_key_(absl::StrCat("/psgd/", run_, "/leader")),
      silence_seconds_(
          std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(silence).count())) {}

absl::StatusOr<bool> EtcdChainStore::IsKept(const pb::RangeResponse& leader) {
  if (leader.kvs_size() == 0) return false;
  PSGD_ASSIGN_OR_RETURN(const int64_t left, etcd_.SecondsLeft(leader.kvs(0).lease()));
  return left >= kLastSecond;
}

absl::Status EtcdChainStore::EndUnkeptLease() {
  pb::RangeRequest request;
  request.set_key(leader_key_);
  PSGD_ASSIGN_OR_RETURN(const pb::RangeResponse leader, etcd_.Range(request));
  PSGD_ASSIGN_OR_RETURN(const bool kept, IsKept(leader));
  if (leader.kvs_size() == 0 || kept) return absl::OkStatus();
  const absl::Status ended = etcd_.RevokeLease(leader.kvs(0).lease());
  return absl::IsNotFound(ended) ? absl::OkStatus() : ended;
}

absl::StatusOr<ChainStore::Held> EtcdChainStore::Read() {
  // Both as of one moment.
  pb::TxnRequest request;
  *request.add_success() = Get(chain_key_);
  *request.add_success() = Get(leader_key_);
  PSGD_ASSIGN_OR_RETURN(const pb::TxnResponse reply, etcd_.Txn(request));
  if (reply.responses_size() != 2) {
    return absl::FailedPreconditionError("etcd answered something else than it was asked");
  }
  Held held;
  PSGD_ASSIGN_OR_RETURN(held.led, IsKept(reply.responses(1).response_range()));
  const pb::RangeResponse& chain = reply.responses(0).response_range();
  if (chain.kvs_size() == 0) return held;
  PSGD_ASSIGN_OR_RETURN(held.chain, ChainFromJson(chain.kvs(0).value(), chain_key_));
  held.revision = chain.kvs(0).mod_revision();
  return held;
}

pb::Compare EtcdChainStore::ChainIsAt(int64_t revision) const {
  if (revision == 0) return IsAbsent(chain_key_);
  pb::Compare compare;
  compare.set_target(pb::Compare::MOD);
  compare.set_key(chain_key_);
  compare.set_mod_revision(revision);
  return compare;
}

absl::StatusOr<int64_t> EtcdChainStore::Lease() {
  if (lease_ == 0) {
    PSGD_ASSIGN_OR_RETURN(lease_, etcd_.GrantLease(silence_seconds_ + kLastSecond));
  }
  return lease_;
}

absl::StatusOr<pb::TxnResponse> EtcdChainStore::TxnWithLease(pb::TxnRequest request) {
  pb::RequestOp* const leader = request.add_success();
  PSGD_ASSIGN_OR_RETURN(const int64_t lease, Lease());
  *leader = Put(leader_key_, leader_, lease);
  auto reply = etcd_.Txn(request);
  if (!absl::IsNotFound(reply.status())) return reply;
  lease_ = 0;
  PSGD_ASSIGN_OR_RETURN(const int64_t another, Lease());
  leader->mutable_request_put()->set_lease(another);
  return etcd_.Txn(request);
}

absl::StatusOr<int64_t> EtcdChainStore::Replace(int64_t revision, const Chain& next, As as) {
  std::lock_guard lock(mutex_);
  // One that is kept alive again meanwhile loses it, takes another, and is the leader still if that
  // comes first.
  if (as == As::kSuccessor) PSGD_RETURN_IF_ERROR(EndUnkeptLease());
  leader_ = next.members(0).address();
  const std::string json = ChainToJson(next);
  pb::TxnRequest request;
  *request.add_compare() = ChainIsAt(revision);
  if (as == As::kSuccessor) *request.add_compare() = IsAbsent(leader_key_);
  *request.add_success() = Put(chain_key_, json);
  *request.add_failure() = Get(chain_key_);
  PSGD_ASSIGN_OR_RETURN(const pb::TxnResponse reply, TxnWithLease(std::move(request)));
  if (reply.succeeded()) return reply.header().revision();
  // An earlier try whose answer was lost: only a chain's leader writes it.
  for (const pb::ResponseOp& response : reply.responses()) {
    for (const pb::KeyValue& pair : response.response_range().kvs()) {
      if (pair.value() == json) return pair.mod_revision();
    }
  }
  return absl::AbortedError(absl::StrCat("somebody else changed the chain of run ", run_));
}

absl::Status EtcdChainStore::Keep(int64_t revision) {
  std::lock_guard lock(mutex_);
  if (SteadyNow() < next_keep_) return absl::OkStatus();
  absl::Status kept = absl::NotFoundError("");
  if (lease_ != 0) kept = etcd_.KeepLease(lease_);
  if (absl::IsNotFound(kept)) {
    lease_ = 0;
    pb::TxnRequest request;
    *request.add_compare() = ChainIsAt(revision);
    PSGD_ASSIGN_OR_RETURN(const pb::TxnResponse reply, TxnWithLease(std::move(request)));
    if (!reply.succeeded()) {
      return absl::AbortedError(absl::StrCat("somebody else changed the chain of run ", run_));
    }
    kept = absl::OkStatus();
  }
  if (kept.ok())
    next_keep_ = SteadyNow() + Duration(std::chrono::seconds(silence_seconds_)) / kKeepsPerSilence;
  return kept;
}

absl::Status EtcdChainStore::Remove(int64_t revision) {
  std::lock_guard lock(mutex_);
  pb::TxnRequest request;
  *request.add_compare() = ChainIsAt(revision);
  *request.add_success() = Delete(chain_key_);
  *request.add_success() = Delete(leader_key_);
  PSGD_ASSIGN_OR_RETURN(const pb::TxnResponse reply, etcd_.Txn(request));
  if (!reply.succeeded()) {
    return absl::AbortedError(absl::StrCat("somebody else changed the chain of run ", run_));
  }
  if (lease_ != 0) (void)etcd_.RevokeLease(std::exchange(lease_, 0));  // it would run out by itself
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ServersOf(ChainStore& store, const std::string& run) {
  PSGD_ASSIGN_OR_RETURN(const ChainStore::Held held, store.Read());
  if (held.revision == 0) {
    return absl::NotFoundError(
        absl::StrCat("etcd knows no run called ", run,
                     "; is that its name, does its server run with --etcd, and is it "
                     "not over?"));
  }
  std::vector<std::string> servers;
  for (const Chain::Member& member : held.chain.members()) servers.push_back(member.address());
  return servers;
}

}  // namespace psgd
