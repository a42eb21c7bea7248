// Servers that come back at another address, where workers and other servers find them by the run's
// name.
#include "tests/system/etcd_run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;

class EtcdMove : public EtcdTest {};

// All servers die; one goes on at another address, where workers find it by the run's name.
TEST_F(EtcdMove, ARecoveredServerMayMove) {
  StartEtcd();
  StartRun({"train.epochs=120"});
  const std::string before = ServerOf(*servers_[0]);
  Kill(*servers_[1]);
  Kill(*servers_[0]);
  const Ended tied = RunProgram({"ps-server", "--recover", Path("server-1"), "--port", "0"});
  EXPECT_EQ(tied.code, 2);
  EXPECT_THAT(tied.err, HasSubstr("unless they find it by --etcd"));
  servers_[0] = std::make_unique<Process>(std::vector<std::string>{
      "ps-server", "--recover", Path("server-1"), "--port", "0", "--etcd", etcd_options_});
  EXPECT_NE(ServerOf(*servers_[0]), before) << servers_[0]->Err();
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[0]->Wait().code, 0) << servers_[0]->Err();
  EXPECT_EQ(Summary("server-1")["epochs"], 120.0);
}

// A run that nobody follows, of two servers, and two workers; in training.
class EtcdMoveAlone : public EtcdTest {
 protected:
  void StartAlone() {
    StartEtcd();
    servers_.push_back(std::make_unique<Process>(
        Leading("server-1", kSettings + std::vector<std::string>{"durability.acknowledge=journal",
                                                                 "cluster.servers=2"})));
    ASSERT_NE(ServerOf(*servers_[0]), "") << servers_[0]->Err();
    servers_.push_back(std::make_unique<Process>(std::vector<std::string>{
        "ps-server", "--join", "small", "--etcd", etcd_options_, "--run-dir", Path("server-2")}));
    ASSERT_TRUE(servers_[1]->WaitFor("joined:")) << servers_[1]->Err();
    for (auto& worker : workers_) worker = std::make_unique<Process>(Worker());
    ASSERT_TRUE(servers_[0]->WaitFor("epoch 2: test accuracy")) << servers_[0]->Err();
  }
  std::vector<std::string> Elsewhere(const std::string& run_dir) const {
    return {"ps-server", "--recover", Path(run_dir), "--bind",     "127.0.0.2",
            "--port",    "0",         "--etcd",      etcd_options_};
  }
  const std::vector<std::string> kSettings = {"train.epochs=120", "optimizer.sgd.momentum=0.9"};
};

// The other server and the workers find it where it comes back.
TEST_F(EtcdMoveAlone, IsFoundWhereItComesBack) {
  ASSERT_EQ(RunSmall("calm", Sets(kSettings)).code, 0);
  StartAlone();
  Kill(*servers_[0]);
  servers_[0] = std::make_unique<Process>(Elsewhere("server-1"));
  EXPECT_THAT(ServerOf(*servers_[0]), HasSubstr("127.0.0.2:")) << servers_[0]->Err();
  ExpectWorkersFinish();
  EXPECT_EQ(servers_[0]->Wait().code, 0) << servers_[0]->Err();
  EXPECT_EQ(servers_[1]->Wait().code, 0) << servers_[1]->Err();
  EXPECT_EQ(Weights("server-1") == Weights("calm"), true);
}

// One that stands still holds its directory; of a copy of that, another server leads, and it ends.
TEST_F(EtcdMoveAlone, TwoDoNotLead) {
  StartAlone();
  servers_[0]->Signal(SIGSTOP);
  const Ended held = RunProgram(Elsewhere("server-1"));
  EXPECT_NE(held.code, 0);
  EXPECT_THAT(held.err, HasSubstr("still goes on in another ps-server"));
  std::filesystem::copy(Path("server-1"), Path("copy"), std::filesystem::copy_options::recursive);
  Process copy(Elsewhere("copy"));
  ASSERT_TRUE(copy.WaitFor("ready: workers connect")) << copy.Err();
  servers_[0]->Signal(SIGCONT);
  EXPECT_NE(servers_[0]->Wait().code, 0);
  EXPECT_THAT(servers_[0]->Err(),
              HasSubstr("this run was recovered elsewhere: its server is at 127.0.0.2:"));
  for (auto& worker : workers_) worker->Signal(SIGKILL);
}

TEST_F(EtcdMove, OneThatWasDroppedDoesNotGoOn) {
  StartEtcd();
  StartRun({"train.epochs=400"});
  Kill(*servers_[1]);
  ASSERT_TRUE(servers_[0]->WaitFor("is gone: the run goes on without it")) << servers_[0]->Err();
  Kill(*servers_[0]);
  const Ended dropped =
      RunProgram({"ps-server", "--recover", Path("server-2"), "--etcd", etcd_options_});
  EXPECT_NE(dropped.code, 0);
  EXPECT_THAT(dropped.err, HasSubstr("server 2 is not in the run's chain by now"));
  const Ended another = RunProgram(Leading("another", {}));
  EXPECT_NE(another.code, 0);
  EXPECT_THAT(another.err, HasSubstr("etcd holds a run of this name already, led by server 1"));
  EXPECT_THAT(another.err, HasSubstr("--set name="));
  for (auto& worker : workers_) worker->Signal(SIGKILL);
}

}  // namespace
}  // namespace psgd
