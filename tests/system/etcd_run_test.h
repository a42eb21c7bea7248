// Runs with Debian's etcd: servers and workers that use it, and what it stores of them.
#pragma once

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/certificates/certificates.h"
#include "tests/system/run_test.h"

namespace psgd {

using namespace std::chrono_literals;

inline constexpr char kEtcd[] = "/usr/bin/etcd";

// A port of this machine on which nobody listens now.
inline int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(socket);
  return ntohs(address.sin_port);
}

class EtcdTest : public RunTest {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kEtcd)) {
      GTEST_SKIP() << "no " << kEtcd << "; scripts/install-packages.sh etcd-server installs it";
    }
  }
  void TearDown() override {
    // Ends the processes that a failed test left.
    for (auto& worker : workers_) worker.reset();
    servers_.clear();
    etcd_.reset();
    RunTest::TearDown();
  }
  void StartEtcd(const Certificates* certificates = nullptr) {
    const std::string scheme = certificates == nullptr ? "http" : "https";
    // etcd cannot choose free ports itself, so another process may take a port first.
    for (int attempt = 0; attempt < 5; ++attempt) {
      const int port = FreePort();
      etcd_address_ = absl::StrCat("127.0.0.1:", port);
      etcd_options_ = absl::StrCat(certificates == nullptr ? "" : "https://", etcd_address_);
      const std::string clients = absl::StrCat(scheme, "://", etcd_address_);
      const std::string peers = absl::StrCat("http://127.0.0.1:", FreePort());
      etcd_command_ = {kEtcd,
                       "--data-dir",
                       Path("etcd"),
                       "--listen-client-urls",
                       clients,
                       "--advertise-client-urls",
                       clients,
                       "--listen-peer-urls",
                       peers,
                       "--initial-advertise-peer-urls",
                       peers,
                       "--initial-cluster",
                       "default=" + peers,
                       "--unsafe-no-fsync"};
      if (certificates != nullptr) {
        etcd_command_ = etcd_command_ + std::vector<std::string>{"--client-cert-auth",
                                                                 "--trusted-ca-file",
                                                                 certificates->Path("ca.crt"),
                                                                 "--cert-file",
                                                                 certificates->Path("server.crt"),
                                                                 "--key-file",
                                                                 certificates->Path("server.key")};
      }
      etcd_ = std::make_unique<Process>(etcd_command_);
      if (etcd_->WaitFor("client requests on")) return;
    }
    FAIL() << etcd_->Err();
  }

  // Command of the first of `servers` servers of a run in which each shard has two copies.
  std::vector<std::string> Leading(const std::string& run_dir, std::vector<std::string> settings,
                                   int servers = 2) const {
    return std::vector<std::string>{"ps-server", "--config",    SmallConfig(), "--port",     "0",
                                    "--etcd",    etcd_options_, "--run-dir",   Path(run_dir)} +
           Copied(servers) + Sets(std::move(settings));
  }
  static std::vector<std::string> Copied(int servers) {
    return Sets({"durability.acknowledge=journal", "cluster.copies=2",
                 absl::StrCat("cluster.servers=", servers), "cluster.resend=200ms",
                 "cluster.lease=3min", "cluster.deadline=6min"});
  }
  std::vector<std::string> Joining(const std::string& run_dir) const {
    return {"ps-server", "--join", "small", "--etcd", etcd_options_, "--run-dir", Path(run_dir)};
  }
  std::vector<std::string> Worker() const {
    return {"ps-worker", "--cpu", "--etcd", etcd_options_, "--run", "small"};
  }
  // Starts the servers, and two workers that know only etcd. Returns when the run trains and,
  // without `more`, all copies are in sync.
  void StartRun(const std::vector<std::string>& settings, int servers = 2,
                const std::vector<std::string>& more = {}) {
    has_short_lease_ = std::ranges::any_of(
        settings, [](const std::string& one) { return one.starts_with("cluster.lease="); });
    servers_.push_back(std::make_unique<Process>(Leading("server-1", settings, servers) + more));
    ASSERT_NE(ServerOf(*servers_[0]), "") << servers_[0]->Err();
    for (int i = 2; i <= servers; ++i) {
      servers_.push_back(std::make_unique<Process>(Joining(absl::StrCat("server-", i)) + more));
      // Servers start one after the other, so that their numbers match this loop.
      ASSERT_TRUE(servers_.back()->WaitFor("joined:")) << servers_.back()->Err();
    }
    for (auto& worker : workers_) worker = std::make_unique<Process>(Worker() + more);
    ASSERT_TRUE(servers_[0]->WaitFor("epoch 2: test accuracy")) << servers_[0]->Err();
    if (more.empty()) {
      ASSERT_TRUE(WaitInSync());
      ASSERT_TRUE(TrainsOn(*servers_[0])) << servers_[0]->Err();
    }
  }
  // One worker stands still, so that the run cannot end before the test has seen what it waits for:
  // then a few epochs are enough.
  void Hold() { workers_[1]->Signal(SIGSTOP); }
  void Release() { workers_[1]->Signal(SIGCONT); }
  // Waits until the run has trained another epoch under that server.
  static bool TrainsOn(const Process& server) {
    const auto evaluations = [&] { return server.Err().rfind(": test accuracy"); };
    const size_t before = evaluations();
    return Eventually([&] { return evaluations() != before; });
  }
  static void Kill(Process& process) {
    process.Signal(SIGKILL);
    process.Wait();
  }
  void ExpectWorkersFinish() {
    for (auto& worker : workers_) EXPECT_EQ(worker->Wait().code, 0) << worker->Err();
  }
  // Whether every shard has two copies in sync, on connected servers.
  static bool IsInSync(const Json& status) {
    if (!status.is_object()) return false;
    for (const Json& shard : status["shards"]) {
      int there = 0;
      for (const Json& server : status["servers"]) {
        const auto& in_sync = shard["in_sync"];
        const bool has =
            std::find(in_sync.begin(), in_sync.end(), server["server"]) != in_sync.end();
        there += has && server["connected"] == true;
      }
      if (there < 2) return false;
    }
    return status["shards"].size() > 0;
  }
  // Waits until something happens while a worker stands still, so that the run cannot end before. A
  // copy that begins anew waits for a checkpoint that is under way, which may need this worker. So
  // it goes on for a moment now and then.
  static bool EventuallyWhileHeld(const std::function<void()>& hold,
                                  const std::function<void()>& release,
                                  const std::function<bool()>& happens) {
    return Eventually([&] {
      hold();
      if (Eventually(happens, 5s)) return true;
      release();
      Pause(100ms);
      return false;
    });
  }
  // A worker with a short lease would be out if it stood still.
  bool WaitInSync() {
    const auto in_sync = [&] { return IsInSync(StatusByName()); };
    if (has_short_lease_) return Eventually(in_sync);
    const bool are = EventuallyWhileHeld([&] { Hold(); }, [&] { Release(); }, in_sync);
    Release();
    return are;
  }
  Json StatusByName() const {
    const Ended ended =
        RunProgram({"ps-ctl", "status", "--etcd", etcd_options_, "--run", "small", "--json"});
    return ended.code == 0 ? Json::parse(ended.out) : Json();
  }

  std::string etcd_address_, etcd_options_;
  std::vector<std::string> etcd_command_;
  std::unique_ptr<Process> etcd_;
  std::vector<std::unique_ptr<Process>> servers_;
  std::unique_ptr<Process> workers_[2];
  bool has_short_lease_ = false;
};

}  // namespace psgd
