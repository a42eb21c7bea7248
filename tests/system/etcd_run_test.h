// Debian's etcd, servers and workers that know of it, and what it knows of them.
#pragma once

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/certificates/certificates.h"
#include "tests/system/run_test.h"

namespace psgd {

using namespace std::chrono_literals;

inline constexpr char kEtcd[] = "/usr/bin/etcd";

// Of this machine, that nobody listens on just now.
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
    // What a test that failed has not ended.
    for (auto& worker : workers_) worker.reset();
    servers_.clear();
    etcd_.reset();
    RunTest::TearDown();
  }
  void StartEtcd(const Certificates* certificates = nullptr) {
    const std::string scheme = certificates == nullptr ? "http" : "https";
    // It cannot choose its ports itself, so somebody else may be faster.
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

  std::vector<std::string> Leading(const std::string& run_dir,
                                   std::vector<std::string> settings) const {
    return std::vector<std::string>{"ps-server", "--config",    SmallConfig(), "--port",     "0",
                                    "--etcd",    etcd_options_, "--run-dir",   Path(run_dir)} +
           Sets(
               {"durability.acknowledge=replicated", "cluster.resend=200ms", "cluster.lease=20s"}) +
           Sets(std::move(settings));
  }
  std::vector<std::string> Following(const std::string& run_dir) const {
    return {"ps-server", "--follow", "small",     "--etcd",     etcd_options_,
            "--port",    "0",        "--run-dir", Path(run_dir)};
  }
  std::vector<std::string> Worker() const {
    return {"ps-worker", "--cpu", "--etcd", etcd_options_, "--run", "small"};
  }
  // A leader, so many that follow it, and two workers that know of etcd alone; in training.
  void StartRun(const std::vector<std::string>& settings, int followers = 1,
                const std::vector<std::string>& more = {}) {
    servers_.push_back(std::make_unique<Process>(
        Leading("server-1", settings + std::vector<std::string>{absl::StrCat(
                                           "durability.followers=", followers)}) +
        more));
    ASSERT_NE(ServerOf(*servers_[0]), "") << servers_[0]->Err();
    for (int i = 2; i <= followers + 1; ++i) {
      servers_.push_back(std::make_unique<Process>(Following(absl::StrCat("server-", i)) + more));
      // One after the other, so that they are numbered as they are here.
      ASSERT_TRUE(servers_.back()->WaitFor("following:")) << servers_.back()->Err();
    }
    for (auto& worker : workers_) worker = std::make_unique<Process>(Worker() + more);
    ASSERT_TRUE(servers_[0]->WaitFor("epoch 2: test accuracy")) << servers_[0]->Err();
  }
  void Kill(Process& process) {
    process.Signal(SIGKILL);
    process.Wait();
  }
  void ExpectWorkersFinish() {
    for (auto& worker : workers_) EXPECT_EQ(worker->Wait().code, 0) << worker->Err();
  }
  // ps-run, which starts its servers itself.
  std::vector<std::string> LedByPsRun(const std::string& run_dir,
                                      const std::vector<std::string>& settings) const {
    return PsRun(run_dir, Sets({"durability.acknowledge=replicated", "cluster.resend=200ms",
                                "cluster.lease=20s"}) +
                              Sets(settings) + std::vector<std::string>{"--etcd", etcd_options_});
  }
  // The servers that etcd knows, the one that leads first.
  std::vector<int> Chain() const {
    std::vector<int> replicas;
    const Json status = StatusByName();
    if (!status.is_object()) return {};
    for (const Json& member : status["chain"]["members"]) replicas.push_back(member["replica"]);
    return replicas;
  }
  // Whether a follower would lead if the leader died now.
  static bool WouldBeSucceeded(const Json& status) {
    const Json followers =
        status.is_object() ? status.value("followers", Json::array()) : Json::array();
    if (followers.empty()) return false;
    const Json& follower = followers.back();
    return follower["connected"] == true && follower["in_chain"] == true;
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
};

}  // namespace psgd
