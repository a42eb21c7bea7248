// Workers that send more than a server applies, that read no answers, or that send bad values.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "tests/system/raw_worker.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

// The memory that a process has for itself, in bytes. What a worker shares with it over ipc belongs
// to that worker, and has a fixed size.
size_t OwnMemory(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (status >> word) {
    size_t kilobytes = 0;
    if (word == "RssAnon:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

class Overload : public RunTest {
 protected:
  // A server of a run that never ends, for `workers` workers.
  std::unique_ptr<Process> Server(int workers, const std::vector<std::string>& settings) {
    auto server = std::make_unique<Process>(
        std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0", "--shards",
                                 "1", "--workers", std::to_string(workers), "--run-dir",
                                 Path("run"), "--quiet"} +
        Sets({"train.epochs=100000", "consistency.staleness=unbounded", "cluster.lease=50s"}) +
        Sets(settings));
    EXPECT_TRUE(server->WaitFor("ready")) << server->Err();
    return server;
  }

  // A model of one matrix of `bytes` bytes.
  static ModelSpec ModelOf(size_t bytes) {
    ModelSpec model;
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name("w");
    parameter->add_shape(static_cast<int64_t>(bytes / sizeof(float)));
    return model;
  }

  static Json WorkerStatus(const std::string& server, uint32_t worker) {
    const Json all = StatusOf(server);
    for (const Json& status : all["workers"]) {
      if (status["key"]["worker"] == worker) return status;
    }
    return nullptr;
  }
};

class OverloadOver : public Overload, public testing::WithParamInterface<std::string> {};

TEST_P(OverloadOver, MemoryIsBoundedAndNobodyStarves) {
  constexpr size_t kWeights = 2 * kMiB;
  constexpr int kFlooders = 3;
  constexpr uint64_t kEnough = 150;  // pushes of each worker
  const auto server = Server(kFlooders + 1, {"cluster.queue=1MiB", "cluster.slice=1MiB",
                                             "cluster.transport=" + GetParam()});
  const std::string address = ServerOf(*server);
  std::vector<std::unique_ptr<RawWorker>> workers;
  for (int i = 0; i <= kFlooders; ++i) workers.push_back(std::make_unique<RawWorker>(address));
  std::vector<std::thread> joining;
  for (auto& worker : workers) {
    worker->Register(ModelOf(kWeights), 1000);
    joining.emplace_back([&] { worker->AwaitSegment(); });
  }
  for (std::thread& thread : joining) thread.join();
  ASSERT_FALSE(HasFailure());
  const size_t before = OwnMemory(server->pid());

  std::atomic<int> done{0};
  std::vector<uint64_t> when_first_done(kFlooders);
  std::atomic<bool> first{false};
  std::vector<std::atomic<uint64_t>> absorbed(kFlooders);
  std::vector<std::thread> threads;
  for (int i = 0; i < kFlooders; ++i) {
    threads.emplace_back([&, i] {
      RawWorker& worker = *workers[static_cast<size_t>(i)];
      bool counted = false;
      while (done < kFlooders) {
        // A fast transport never blocks, so the worker must listen now and then.
        for (int pushes = 0; pushes < 32 && worker.Push(0, 1e-6f); ++pushes) {
        }
        worker.Listen();
        absorbed[static_cast<size_t>(i)] = worker.absorbed(0);
        if (counted || worker.absorbed(0) < kEnough) continue;
        counted = true;
        ++done;
        if (!first.exchange(true)) {
          for (size_t w = 0; w < kFlooders; ++w) when_first_done[w] = absorbed[w];
        }
      }
    });
  }
  // This worker asks for weights all the time, and reads none.
  size_t most = before;
  std::thread silent([&] {
    while (done < kFlooders) {
      most = std::max(most, OwnMemory(server->pid()));
      if (!workers.back()->Pull(0)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (std::thread& thread : threads) thread.join();
  silent.join();

  // See "Memory under load" in docs/architecture.md: for each worker, its received messages and
  // unread replies. The workers offer a multiple of this.
  const size_t received = GetParam() == "grpc" ? kWeights + 8 * kMiB : 16 * kWeights;
  const size_t of_each = received + 64 * kMiB + kWeights;
  const size_t bound = 4 * kWeights + (kFlooders + 1) * of_each;
  std::cout << (most - before) / kMiB << " MiB more, of " << bound / kMiB << " allowed\n";
  EXPECT_LT(most - before, bound);
  for (size_t i = 0; i < kFlooders; ++i) EXPECT_GE(when_first_done[i], kEnough / 4) << i;
  server->Signal(SIGKILL);
  server->Wait();
}

INSTANTIATE_TEST_SUITE_P(Transports, OverloadOver, testing::Values("zmq", "ipc", "grpc", "ucx"),
                         [](const auto& info) { return info.param; });

// The processor time of a process so far.
double CpuSeconds(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  long ticks = 0;
  for (int field = 1; stat >> word && field <= 15; ++field) {
    if (field >= 14) ticks += std::stol(word);  // in programs, and in the kernel for them
  }
  return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// PSGD_CLIENTS sets their number.
TEST_F(Overload, AClientCostsTheServerLittle) {
  const char* const named = std::getenv("PSGD_CLIENTS");
  const int clients = named != nullptr ? std::stoi(named) : 200;
  const auto server = Server(clients, {"cluster.lease=500s", "cluster.deadline=600s"});
  const std::string address = ServerOf(*server);
  const size_t before = OwnMemory(server->pid());
  std::vector<std::unique_ptr<RawWorker>> workers;
  for (int i = 0; i < clients; ++i) {
    workers.push_back(std::make_unique<RawWorker>(address));
    workers.back()->Register(ModelOf(16384), 100'000);
    ASSERT_FALSE(HasFailure()) << i;
  }
  for (auto& worker : workers) {
    worker->AwaitSegment();
    ASSERT_FALSE(HasFailure());
    ASSERT_TRUE(worker->Push(0, 1e-6f) && worker->Pull(0));
  }
  for (auto& worker : workers) {
    ASSERT_TRUE(Eventually([&] {
      worker->Listen();
      return worker->absorbed(0) == 1;
    }));
  }
  const size_t of_each = (OwnMemory(server->pid()) - before) / static_cast<size_t>(clients);
  const double used = CpuSeconds(server->pid());
  Pause(std::chrono::seconds(5));
  const double idle = (CpuSeconds(server->pid()) - used) / 5;
  std::cout << clients << " clients: " << of_each << " bytes each, " << 100 * idle
            << " % of a core while they are idle\n";
  EXPECT_LT(of_each, 64u << 10);
  EXPECT_LT(idle, 0.05);
  server->Signal(SIGKILL);
  server->Wait();
}

TEST_F(Overload, AServerTakesAllFilesThatTheSystemLetsIt) {
  Process server({"/bin/sh", "-c", "ulimit -Sn 64; exec \"$0\" \"$@\"", ProgramPath("ps-server"),
                  "--config", SmallConfig(), "--port", "0", "--run-dir", Path("run"), "--quiet"});
  ASSERT_TRUE(server.WaitFor("ready")) << server.Err();
  std::ifstream limits("/proc/" + std::to_string(server.pid()) + "/limits");
  std::string line;
  while (std::getline(limits, line) && line.rfind("Max open files", 0) != 0) {
  }
  std::istringstream words(line.substr(std::string("Max open files").size()));
  std::string soft, hard;
  words >> soft >> hard;
  EXPECT_EQ(soft, hard) << line;
  EXPECT_NE(soft, "64");
  server.Signal(SIGKILL);
  server.Wait();
}

// Beyond the weights and the optimizer's array (momentum), a parameter costs almost nothing.
TEST_F(Overload, AParameterCostsTheServerItsStateAlone) {
  constexpr size_t kWeights = 128 * kMiB;
  const auto server = Server(1, {});
  const size_t before = OwnMemory(server->pid());
  RawWorker worker(ServerOf(*server));
  worker.Register(ModelOf(kWeights), 1000);
  worker.AwaitSegment();
  ASSERT_FALSE(HasFailure());
  const double state = 2.0 * kWeights;
  EXPECT_TRUE(Eventually([&] {
    return static_cast<double>(OwnMemory(server->pid()) - before) < 1.02 * state;
  })) << OwnMemory(server->pid()) - before;
  std::cout << static_cast<double>(OwnMemory(server->pid()) - before) * 4 / kWeights
            << " bytes a parameter\n";
  server->Signal(SIGKILL);
  server->Wait();
}

TEST_F(Overload, APoisonedWorkerIsPutOutAndTheOthersGoOn) {
  Process run(PsRun("run", Sets({"train.epochs=100000", "consistency.staleness=unbounded",
                                 "cluster.quarantine=20", "cluster.segment=4"})));
  ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
  const std::string address = ServerOf(run);
  RawWorker poison(address);
  poison.Register(RawWorker::ModelOf(address), 64);
  poison.AwaitSegment();
  ASSERT_FALSE(HasFailure());
  for (int i = 0; i < 25; ++i) {
    for (int shard = 0; shard < poison.shards(); ++shard) {
      // Tries again while the queue is full.
      ASSERT_TRUE(Eventually([&] {
        poison.Listen();
        return poison.Push(static_cast<uint32_t>(shard), i % 2 == 0 ? 1e30f : NAN);
      }));
    }
  }
  EXPECT_TRUE(Eventually([&] {
    poison.Listen();
    return poison.refusals().find("is in quarantine") != std::string::npos;
  })) << poison.refusals();
  EXPECT_THAT(poison.refusals(),
              AllOf(HasSubstr("20 of its pushes"), HasSubstr("cluster.quarantine")));
  EXPECT_TRUE(Eventually([&] { return !WorkerStatus(address, poison.key().worker())["live"]; }));
  EXPECT_THAT(WorkerStatus(address, poison.key().worker())["note"].get<std::string>(),
              HasSubstr("quarantined: 20 of its pushes"));
  // The others train as if nothing had happened.
  const uint64_t clock = std::stoull(StatusOf(address)["clock"].get<std::string>());
  EXPECT_TRUE(Eventually([&] {
    return std::stoull(StatusOf(address)["clock"].get<std::string>()) > clock + 100;
  })) << "training stands still";
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().code, 3);
  EXPECT_GE(Summary("run")["test_accuracy"].get<double>(), 0.85);
  EXPECT_GE(Summary("run")["rejected"]["non_finite"].get<uint64_t>(), 20u);
}

TEST_F(Overload, ARunOfNobodyElseEndsAndSaysWhy) {
  const auto server = Server(1, {"cluster.quarantine=5"});
  RawWorker poison(ServerOf(*server));
  poison.Register(ModelOf(kMiB), 1000);
  poison.AwaitSegment();
  ASSERT_FALSE(HasFailure());
  // Tries again while the queue is full.
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Eventually([&] { return poison.Push(0, INFINITY); }));
  const Ended ended = server->Wait();
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_EQ(Summary("run")["status"], "failed");
  EXPECT_THAT(Summary("run")["error"].get<std::string>(),
              HasSubstr("no worker is left that sends sound updates"));
}

}  // namespace
}  // namespace psgd
