// Whole servers in this process, with real streams, journals and run stores, and a worker whose
// messages the test writes.
#include "server/control/server_loop.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/random_id.h"
#include "experiment/config/config_yaml.h"
#include "net/etcd/etcd_run_store.h"
#include "net/wire_format.h"
#include "server/durability/journal_folder.h"
#include "server/durability/rocks_run_store.h"
#include "server/durability/server_record.h"
#include "tests/conformance/run_store/fake_etcd.h"
#include "tests/unit/data/scratch.h"
#include "tests/unit/server/shard/shard_fixture.h"

namespace psgd {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);
constexpr Duration kServerPatience = std::chrono::milliseconds(700);
constexpr Duration kLook = std::chrono::milliseconds(5);
constexpr uint32_t kElements = 3000;

template <typename Condition>
bool Eventually(const Condition& holds) {
  const Time until = SteadyNow() + kPatience;
  while (!holds()) {
    if (SteadyNow() > until) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

Config ConfigOfRun(int servers) {
  Config config =
      *ParseConfig("name: small\nmodel: {zoo: mlp}\ndata: {format: synthetic}\n", "a test");
  config.mutable_cluster()->set_shards(2);
  config.mutable_cluster()->set_workers(1);
  config.mutable_cluster()->set_servers(servers);
  config.mutable_cluster()->set_segment(50);
  config.mutable_train()->set_epochs(100);
  config.mutable_consistency()->set_reduction(ConsistencyConfig::SUM);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  config.mutable_durability()->set_acknowledge(DurabilityConfig::JOURNAL);
  return config;
}

// A process with a server.
struct Machine {
  std::unique_ptr<PeerService> service = std::make_unique<PeerService>();
  std::unique_ptr<grpc::Server> grpc;
  std::string address;
  std::unique_ptr<ServerLoop> loop;

  Machine() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service.get());
    grpc = builder.BuildAndStart();
    address = absl::StrCat("127.0.0.1:", port);
  }
  ~Machine() { Die(); }
  void Die() {
    service->SetHandler(nullptr);
    loop.reset();
    if (grpc != nullptr) grpc->Shutdown(std::chrono::system_clock::now());
    grpc.reset();
  }
};

class ServerLoops : public ::testing::Test {
 protected:
  void Start(Machine* machine, const std::string& dir, std::shared_ptr<RunStore> store, int servers,
             size_t copies, bool begins) {
    const Config config = ConfigOfRun(servers);
    const std::string folder = scratch_.path() + "/" + dir;
    ASSERT_TRUE(MakeJournalFolder(folder, NullLog()).ok());
    ServerLoopOptions options;
    if (const auto record = LoadServerRecord(folder); record.ok()) {
      options.record = *record;
    } else {
      options.record.set_identity(RandomId());
      options.record.set_run_id("run");
    }
    options.name = dir;
    options.store = std::move(store);
    options.checkpoint_dir = scratch_.path() + "/" + dir + "/checkpoints";
    options.core.begins = begins;
    options.core.self.set_address(machine->address);
    options.core.leader.coordinator.config = config;
    options.core.leader.servers = static_cast<size_t>(servers);
    options.core.leader.copies = copies;
    options.core.leader.patience = kServerPatience;
    options.copies.config = config;
    options.copies.host = "127.0.0.1";
    options.copies.journal_dir = folder;
    auto loop = ServerLoop::Start(std::move(options));
    ASSERT_TRUE(loop.ok()) << loop.status();
    machine->loop = *std::move(loop);
    machine->service->SetHandler(machine->loop.get());
  }

  // Asks the servers in turn until one answers, like a worker that knows them all.
  template <typename Request>
  ReplyTo<Request> Ask(const std::vector<Machine*>& machines, const Request& request) {
    absl::Status last;
    const Time until = SteadyNow() + kPatience;
    while (SteadyNow() < until) {
      for (Machine* machine : machines) {
        if (machine->loop == nullptr) continue;
        auto reply = machine->loop->Call(request);
        if (reply.ok()) return *reply;
        last = reply.status();
        if (!absl::IsUnavailable(last)) break;
      }
      std::this_thread::sleep_for(kLook);
    }
    ADD_FAILURE() << last;
    return {};
  }

  // A worker joins, and gets its first segment.
  void Train(const std::vector<Machine*>& machines) {
    JoinRequest join;
    join.set_name("worker");
    join.set_protocol(kProtocolVersion);
    key_ = Ask(machines, join).key();
    RegisterRequest registers;
    *registers.mutable_key() = key_;
    for (const char* name : {"a", "b"}) {
      ParameterSpec* const parameter = registers.mutable_model()->add_parameters();
      parameter->set_name(name);
      parameter->add_shape(kElements);
    }
    registers.set_batches_per_epoch(1000);
    placement_ = Ask(machines, registers).placement();
    NextSegmentRequest next;
    *next.mutable_key() = key_;
    next.set_first(true);
    ASSERT_TRUE(Eventually([&] { return Ask(machines, next).kind() == NextSegmentReply::RUN; }));
  }
  // Connects to the shards' present endpoints.
  void Connect(const std::vector<Machine*>& machines) {
    HeartbeatRequest beat;
    *beat.mutable_key() = key_;
    std::vector<std::string> endpoints;
    ASSERT_TRUE(Eventually([&] {
      const auto reply = Ask(machines, beat);
      endpoints.assign(reply.endpoints().begin(), reply.endpoints().end());
      return endpoints.size() == 2;
    }));
    worker_.reset();
    transport_ = *MakeTransport(ClusterConfig::AUTO, {});
    worker_ = *transport_->Connect(endpoints);
  }
  // Pushes to every shard until all have acknowledged.
  bool Push(const std::vector<Machine*>& machines, uint64_t seq, float value) {
    std::set<uint64_t> acknowledged;
    const Time until = SteadyNow() + kPatience;
    Time again{};
    while (acknowledged.size() < 2 && SteadyNow() < until) {
      if (SteadyNow() >= again) {
        Connect(machines);
        for (uint32_t shard = 0; shard < 2; ++shard) {
          if (!acknowledged.contains(shard)) (void)worker_->Send(shard, PushTo(shard, seq, value));
        }
        again = SteadyNow() + std::chrono::milliseconds(500);
      }
      const auto received = worker_->Receive(kLook);
      if (received && received->message.header.has_push_ack() &&
          received->message.header.push_ack().next_seq() == seq + 1) {
        acknowledged.insert(received->from);
      }
    }
    return acknowledged.size() == 2;
  }
  Message PushTo(uint32_t shard, uint64_t seq, float value) const {
    std::vector<std::pair<uint32_t, std::vector<float>>> parts;
    for (int slice = 0; slice < placement_.slices_size(); ++slice) {
      const SliceSpec& spec = placement_.slices(slice);
      if (spec.shard() == shard) {
        parts.emplace_back(static_cast<uint32_t>(slice), Values(spec.count(), value));
      }
    }
    Message message =
        ShardFixture::PushOf(key_.worker(), seq, seq, parts, true, key_.incarnation());
    message.header.set_shard(shard);
    return message;
  }

  ScratchFolder scratch_;
  WorkerKey key_;
  Placement placement_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Endpoint> worker_;
};

TEST_F(ServerLoops, OneServerTrainsAndGoesOnWhenItIsStartedAgain) {
  const std::string store = scratch_.path() + "/store";
  auto machine = std::make_unique<Machine>();
  Start(machine.get(), "one", *RocksRunStore::Create(store, false), 1, 1, true);
  Train({machine.get()});
  EXPECT_TRUE(Push({machine.get()}, 1, 1));
  machine = std::make_unique<Machine>();
  Start(machine.get(), "one", *RocksRunStore::Open(store, false), 1, 1, false);
  EXPECT_TRUE(Push({machine.get()}, 2, 1));
  ASSERT_TRUE(Eventually([&] {
    const auto status = Ask<StatusRequest>({machine.get()}, {});
    return status.workers_size() == 1 && status.shards(0).pushes() == 2;
  })) << "what it had before, and one more";
}

TEST_F(ServerLoops, AShardThatCannotBeMadeIsToldAndTriedAgain) {
  const std::string journal = JournalFolder(scratch_.path() + "/one", "shard-1");
  std::filesystem::create_directories(std::filesystem::path(journal).parent_path());
  std::filesystem::create_symlink("nowhere", journal);
  Machine machine;
  Start(&machine, "one", *RocksRunStore::Create(scratch_.path() + "/store", false), 1, 1, true);
  std::string waits;
  EXPECT_TRUE(Eventually([&] {
    waits = Ask<StatusRequest>({&machine}, {}).waits_for();
    return !waits.empty();
  }));
  EXPECT_THAT(waits, ::testing::HasSubstr("waiting for shard 1: cannot create " + journal));
  std::filesystem::remove(journal);
  ASSERT_TRUE(
      Eventually([&] { return !Ask<StatusRequest>({&machine}, {}).shards(1).endpoint().empty(); }));
  Train({&machine});
  EXPECT_TRUE(Push({&machine}, 1, 1));
}

TEST_F(ServerLoops, AServerThatDiesIsReplaced) {
  FakeEtcd etcd;
  const auto store = [&] {
    return std::make_shared<EtcdRunStore>(
        EtcdOptions{.members = {etcd.address()}, .credentials = {}}, "run",
        std::chrono::seconds(1));
  };
  Machine machines[3];
  std::vector<Machine*> all;
  for (int i = 0; i < 3; ++i) {
    Start(&machines[i], absl::StrCat("m", i), store(), 3, 2, i == 0);
    all.push_back(&machines[i]);
  }
  Train(all);
  ASSERT_TRUE(Push(all, 1, 1));
  ASSERT_TRUE(Push(all, 2, 1));
  machines[0].Die();
  etcd.EndLeases();  // as etcd does after a second
  ASSERT_TRUE(Push(all, 3, 1));
  ASSERT_TRUE(Eventually([&] {
    const auto status = Ask(all, StatusRequest());
    return status.shards(0).pushes() == 3 && status.shards(1).pushes() == 3;
  }));
}

TEST_F(ServerLoops, TheWeightsOfAllServersAreReadFromTheOneThatLeads) {
  FakeEtcd etcd;
  const auto store = [&] {
    return std::make_shared<EtcdRunStore>(
        EtcdOptions{.members = {etcd.address()}, .credentials = {}}, "run",
        std::chrono::seconds(1));
  };
  Machine machines[2];
  std::vector<Machine*> all;
  for (int i = 0; i < 2; ++i) {
    Start(&machines[i], absl::StrCat("m", i), store(), 2, 1, i == 0);
    all.push_back(&machines[i]);
  }
  Train(all);
  ASSERT_TRUE(Push(all, 1, 1));
  // In the end each server has a shard.
  ASSERT_TRUE(Eventually([&] {
    const auto status = Ask(all, StatusRequest());
    return status.shards(0).server() != status.shards(1).server();
  }));
  ASSERT_TRUE(Push(all, 2, 1));
  std::vector<float> first;
  const absl::Status read = machines[0].loop->Weights([&](const WeightsChunk& chunk) {
    if (!chunk.values().empty()) {
      float value = 0;
      std::memcpy(&value, chunk.values().data(), sizeof value);
      first.push_back(value);
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(first.size(), static_cast<size_t>(placement_.slices_size()));
}

TEST_F(ServerLoops, ARunThatIsClosedEndsOnAllServers) {
  FakeEtcd etcd;
  const auto store = [&] {
    return std::make_shared<EtcdRunStore>(
        EtcdOptions{.members = {etcd.address()}, .credentials = {}}, "run",
        std::chrono::seconds(1));
  };
  Machine machines[2];
  std::vector<Machine*> all;
  for (int i = 0; i < 2; ++i) {
    Start(&machines[i], absl::StrCat("m", i), store(), 2, 2, i == 0);
    all.push_back(&machines[i]);
  }
  Train(all);
  LeaveRequest leave;
  *leave.mutable_key() = key_;
  DrainRequest drain;
  drain.set_reason("enough");
  Ask(all, drain);
  Ask(all, leave);
  ASSERT_TRUE(Eventually([&] { return machines[0].loop->standing().now().trained; }));
  EXPECT_FALSE(machines[1].loop->standing().now().ended) << "its shards may be read";
  machines[0].loop->Close();
  ASSERT_TRUE(Eventually([&] { return machines[1].loop->standing().now().ended.has_value(); }));
  EXPECT_TRUE(machines[1].loop->standing().now().ended->ok());
  ASSERT_TRUE(Eventually([&] { return machines[0].loop->standing().now().closed; }));
  EXPECT_TRUE(machines[0].loop->FreeRun().ok());
  EXPECT_EQ(store()->Read()->revision, 0) << "the name is free";
}

}  // namespace
}  // namespace psgd
