#include "net/etcd/etcd_client.h"

#include <grpcpp/create_channel.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "net/address.h"
#include "net/grpc/grpc_security.h"
#include "net/grpc/grpc_status.h"
#include "net/resolve.h"
#include "proto/etcd.grpc.pb.h"

namespace psgd {
namespace {

namespace pb = etcdserverpb;

// etcd says so in words only: the codes have other meanings, too.
bool IsTooLarge(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "request is too large") ||
         absl::StrContains(status.error_message(), "larger than max");
}
bool IsFull(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "database space exceeded");
}

}  // namespace

absl::StatusOr<EtcdOptions> ParseEtcd(const std::string& text,
                                      std::shared_ptr<const Credentials> credentials) {
  EtcdOptions options;
  size_t secure = 0;
  for (absl::string_view member : absl::StrSplit(text, ',')) {
    const bool https = absl::ConsumePrefix(&member, "https://");
    if (!https) absl::ConsumePrefix(&member, "http://");
    const auto address = ParseAddress(absl::StrCat("tcp://", member));
    if (!address.ok() || address->port == 0) {
      return InvalidArgumentError(
          "--etcd ", text,
          " is not HOST:PORT (or https://HOST:PORT), as 127.0.0.1:2379, or several "
          "with commas");
    }
    if (!https && credentials != nullptr && !IsLoopback(address->host)) {
      return InvalidArgumentError(
          "--etcd ", member,
          ": this run is secured, but whoever reaches that etcd could say who leads "
          "it; give etcd certificates and write https://",
          member);
    }
    secure += https ? 1 : 0;
    options.members.emplace_back(member);
  }
  if (secure > 0 && secure < options.members.size()) {
    return InvalidArgumentError("--etcd ", text, ": either all members are https, or none is");
  }
  if (secure > 0 && credentials == nullptr) {
    return InvalidArgumentError("--etcd ", text,
                                ": which certificate is to be shown there? say --tls-dir DIR");
  }
  if (secure > 0) options.credentials = std::move(credentials);
  return options;
}

struct EtcdClient::Impl {
  struct Member {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<pb::KV::Stub> keys;
    std::unique_ptr<pb::Lease::Stub> leases;
  };
  std::vector<Member> members;
  std::atomic<size_t> current{0};  // the member that answered last
};

EtcdClient::EtcdClient(EtcdOptions options)
    : options_(std::move(options)), impl_(std::make_unique<Impl>()) {
  for (const std::string& address : options_.members) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy must not see the run
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetMaxReceiveMessageSize(-1);  // what etcd took, it may give back
    Impl::Member& member = impl_->members.emplace_back();
    member.channel = grpc::CreateCustomChannel(
        address, GrpcChannelCredentials(options_.credentials.get()), arguments);
    member.keys = pb::KV::NewStub(member.channel);
    member.leases = pb::Lease::NewStub(member.channel);
  }
}

EtcdClient::~EtcdClient() = default;

template <typename Call>
absl::Status EtcdClient::Ask(Call call) {
  const size_t first = impl_->current;
  std::string why;
  for (size_t i = 0; i < impl_->members.size(); ++i) {
    const size_t at = (first + i) % impl_->members.size();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + options_.patience);
    const grpc::Status status = call(impl_->members[at], context);
    if (IsTooLarge(status)) {
      return OutOfRangeError("etcd at ", options_.members[at], " refuses a request for its size (",
                             status.error_message(),
                             "): start each of its members with "
                             "--max-request-bytes=33554432");
    }
    if (IsFull(status)) {
      return UnavailableError(
          "etcd at ", options_.members[at], " is full (", status.error_message(),
          "): make room (etcdctl compact REVISION, etcdctl defrag, etcdctl alarm disarm), and run "
          "each member with --auto-compaction-mode=revision --auto-compaction-retention=100");
    }
    switch (status.error_code()) {
      case grpc::StatusCode::OK:
        impl_->current = at;
        return absl::OkStatus();
      case grpc::StatusCode::NOT_FOUND:
        return ToAbsl(status);
      case grpc::StatusCode::UNIMPLEMENTED:
        return FailedPreconditionError(
            "what answers at ", options_.members[at], " is not etcd with its v3 interface (",
            status.error_message(), "); is the port that for clients (2379)?");
      case grpc::StatusCode::INVALID_ARGUMENT:
      case grpc::StatusCode::UNAUTHENTICATED:
      case grpc::StatusCode::PERMISSION_DENIED:
        return FailedPreconditionError("etcd at ", options_.members[at],
                                       " refuses: ", status.error_message());
      default:
        why = status.error_message();
    }
  }
  return UnavailableError(
      "etcd at ", absl::StrJoin(options_.members, " or "), " does not answer (", why,
      "); is it running there, with a majority of its members?",
      options_.credentials != nullptr ? " Are its certificates of the same ca.crt?" : "");
}

absl::StatusOr<pb::RangeResponse> EtcdClient::Range(const pb::RangeRequest& request) {
  pb::RangeResponse reply;
  PSGD_RETURN_IF_ERROR(Ask([&](Impl::Member& member, grpc::ClientContext& context) {
    return member.keys->Range(&context, request, &reply);
  }));
  return reply;
}

absl::StatusOr<pb::TxnResponse> EtcdClient::Txn(const pb::TxnRequest& request) {
  pb::TxnResponse reply;
  PSGD_RETURN_IF_ERROR(Ask([&](Impl::Member& member, grpc::ClientContext& context) {
    return member.keys->Txn(&context, request, &reply);
  }));
  return reply;
}

absl::StatusOr<int64_t> EtcdClient::GrantLease(int64_t seconds) {
  pb::LeaseGrantRequest request;
  request.set_ttl(seconds);
  pb::LeaseGrantResponse reply;
  PSGD_RETURN_IF_ERROR(Ask([&](Impl::Member& member, grpc::ClientContext& context) {
    return member.leases->LeaseGrant(&context, request, &reply);
  }));
  return reply.id();
}

absl::Status EtcdClient::KeepLease(int64_t lease) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  pb::LeaseKeepAliveResponse reply;
  PSGD_RETURN_IF_ERROR(Ask([&](Impl::Member& member, grpc::ClientContext& context) -> grpc::Status {
    const auto stream = member.leases->LeaseKeepAlive(&context);
    const bool answered = stream->Write(request) && stream->WritesDone() && stream->Read(&reply);
    const grpc::Status status = stream->Finish();
    return answered || !status.ok() ? status
                                    : grpc::Status(grpc::StatusCode::UNAVAILABLE, "no answer");
  }));
  return reply.ttl() > 0 ? absl::OkStatus() : absl::NotFoundError("the lease ran out");
}

absl::StatusOr<int64_t> EtcdClient::SecondsLeft(int64_t lease) {
  pb::LeaseTimeToLiveRequest request;
  request.set_id(lease);
  pb::LeaseTimeToLiveResponse reply;
  PSGD_RETURN_IF_ERROR(Ask([&](Impl::Member& member, grpc::ClientContext& context) {
    return member.leases->LeaseTimeToLive(&context, request, &reply);
  }));
  return reply.ttl();
}

absl::Status EtcdClient::RevokeLease(int64_t lease) {
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  pb::LeaseRevokeResponse reply;
  return Ask([&](Impl::Member& member, grpc::ClientContext& context) {
    return member.leases->LeaseRevoke(&context, request, &reply);
  });
}

}  // namespace psgd
