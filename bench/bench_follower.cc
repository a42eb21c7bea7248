#include "bench/bench_follower.h"

#include <grpcpp/server_builder.h>

#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/replication.grpc.pb.h"
#include "server/control/grpc_server_stream.h"
#include "server/control/leader_link.h"
#include "server/control/replicated_journal.h"
#include "server/durability/shard_parts.h"

namespace psgd {
namespace {

constexpr uint32_t kReplica = 2;
constexpr uint32_t kShard = 0;
constexpr char kAddress[] = "the follower of the bench";
constexpr Duration kAlive = std::chrono::milliseconds(100);
constexpr Duration kConnect = std::chrono::seconds(10);

// The leader's side.
class Leader final : public Replication::Service {
 public:
  Leader(uint64_t start, std::shared_ptr<FollowerSet> followers)
      : log_(std::make_shared<FollowerLog>(start)), followers_(std::move(followers)) {}

  grpc::Status Follow(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<LogPart, FollowerSays>* stream) override {
    FollowerSays ask;
    if (!stream->Read(&ask)) return grpc::Status::OK;
    Chain::Member follower;
    follower.set_replica(kReplica);
    follower.set_address(kAddress);
    if (const absl::Status connected = followers_->Connect(follower, kShard, log_);
        !connected.ok()) {
      return {grpc::StatusCode::ALREADY_EXISTS, std::string(connected.message())};
    }
    followers_->Require(follower);
    connected_.set_value();
    GrpcFollowerStream adapter(context, stream);
    SendLog(*log_, adapter, kAlive);
    return grpc::Status::OK;
  }
  bool WaitConnected() {
    return connected_.get_future().wait_for(kConnect) == std::future_status::ready;
  }
  void Close() { log_->Close(); }

 private:
  const std::shared_ptr<FollowerLog> log_;
  const std::shared_ptr<FollowerSet> followers_;
  std::promise<void> connected_;
};

}  // namespace

struct BenchFollower::Impl {
  std::unique_ptr<DurableShard> shard;
  std::unique_ptr<Leader> leader;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<LeaderLink> link;
  std::thread thread;
  absl::Status failed;  // the thread's, while that runs

  void Follow() {
    LogPart part;
    while (failed.ok() && link->Read(&part)) {
      if (!part.shard().has_entries()) continue;
      auto steps = DecodeEntries(part.shard().entries());
      failed = steps.ok() ? shard->Follow(steps->first, std::move(steps->entries)) : steps.status();
      if (failed.ok()) link->Written(shard->entries());
    }
    if (!failed.ok()) link->Cancel();
  }
};

BenchFollower::BenchFollower(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<BenchFollower>> BenchFollower::Start(
    DurableShardOptions options, const ShardImage& image, std::shared_ptr<FollowerSet> leader) {
  auto impl = std::make_unique<Impl>();
  PSGD_ASSIGN_OR_RETURN(impl->shard, DurableShard::FromImage(std::move(options), image));
  impl->leader = std::make_unique<Leader>(image.record.entry(), std::move(leader));
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(impl->leader.get());
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || port == 0)
    return absl::UnavailableError("no port of this machine is free");
  FollowerSays::Ask ask;
  ask.set_replica(kReplica);
  ask.set_shard(kShard);
  impl->link =
      std::make_unique<LeaderLink>(absl::StrCat("127.0.0.1:", port), nullptr, kConnect, ask);
  impl->thread = std::thread([raw = impl.get()] { raw->Follow(); });
  std::unique_ptr<BenchFollower> follower(new BenchFollower(std::move(impl)));
  if (!follower->impl_->leader->WaitConnected())
    return absl::UnavailableError("the follower did not connect");
  return follower;
}

absl::Status BenchFollower::Stop() {
  if (impl_->thread.joinable()) {
    impl_->link->Cancel();
    impl_->thread.join();
    impl_->leader->Close();
    impl_->server->Shutdown();
  }
  impl_->shard.reset();
  return impl_->failed;
}

BenchFollower::~BenchFollower() { (void)Stop(); }

}  // namespace psgd
