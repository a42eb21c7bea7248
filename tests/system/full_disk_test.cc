// Runs whose disk is full: they wait, say so, and go on when there is room.
#include <signal.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

// The run's directory is on a small file system of its own.
class FullDisk : public RunTest {
 protected:
  FullDisk() : disk_(Path("disk")) {
    fs::create_directory(disk_);
    mounted_ = mount("psgd-test", disk_.c_str(), "tmpfs", 0, "size=48m") == 0;
  }
  ~FullDisk() override {
    if (mounted_) umount2(disk_.c_str(), MNT_DETACH);
  }
  void SetUp() override {
    if (!mounted_) GTEST_SKIP() << "no file system may be mounted here";
  }
  std::vector<std::string> OnDisk(const std::vector<std::string>& assignments) const {
    return PsRun("disk/run", Sets({"cluster.resend=200ms"}) + Sets(assignments));
  }
  void Fill() const {
    std::ofstream filler(disk_ + "/filler", std::ios::binary | std::ios::app);
    const std::string block(4096, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  // Until the run says so: an image that replaces the end of a journal frees room again.
  bool FillUntil(Process& run, const std::string& text) const {
    for (int i = 0; i < 100; ++i) {
      Fill();
      if (run.WaitFor(text, 500ms)) return true;
    }
    return false;
  }
  void LeaveRoom(uintmax_t bytes) const {
    fs::resize_file(disk_ + "/filler", fs::file_size(disk_ + "/filler") - bytes);
  }
  void Free() const { fs::remove(disk_ + "/filler"); }
  std::string Log() const { return File("disk/run/server/server.log"); }
  size_t JournalFiles() const {
    const fs::directory_iterator log(disk_ + "/run/server/journal/shard-0/log");
    return static_cast<size_t>(std::distance(fs::begin(log), fs::end(log)));
  }

 private:
  const std::string disk_;
  bool mounted_ = false;
};

TEST_F(FullDisk, AFullDiskIsSaidAndWaitedOut) {
  ASSERT_EQ(RunSmall("calm", Sets({"train.epochs=80"})).code, 0);
  Process run(
      OnDisk({"durability.acknowledge=journal", "train.epochs=80", "durability.journal=1MiB"}));
  ASSERT_TRUE(run.WaitFor("epoch 2/80")) << run.Err();
  EXPECT_TRUE(FillUntil(run, "waiting for shard ")) << run.Err() << Log();
  EXPECT_THAT(run.Err(), HasSubstr("free some space on " + Path("disk")));
  EXPECT_THAT(StatusOf(ServerOf(run))["waits_for"].get<std::string>(), HasSubstr("shard "));
  // Attempts to write leave nothing behind.
  const size_t files = JournalFiles();
  Pause(3s);
  EXPECT_LE(JournalFiles(), files + 4);
  Free();
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err << Log();
  EXPECT_EQ(Weights("disk/run"), Weights("calm"));
}

TEST_F(FullDisk, TheResultsWaitForRoom) {
  Process run(OnDisk({"train.epochs=40"}));
  ASSERT_TRUE(run.WaitFor("epoch 2/40")) << run.Err();
  EXPECT_TRUE(FillUntil(run, "waiting for room for the last checkpoint: ")) << run.Err() << Log();
  Free();
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err << Log();
  EXPECT_THAT(ended.err, Not(HasSubstr("could not be written")));
  EXPECT_EQ(Summary("disk/run")["status"], "finished");
  EXPECT_FALSE(Weights("disk/run").empty());
  EXPECT_TRUE(fs::exists(Path("disk/run/server/checkpoint-000000000001/manifest")));
}

// There is room for the weights, and not for the checkpoint.
TEST_F(FullDisk, ARunThatIsAskedToStopFirstSavesItsWeights) {
  Process run(OnDisk(
      {"train.epochs=100000", "model.hidden=[4000]", "cluster.lease=2s", "cluster.deadline=5s"}));
  ASSERT_TRUE(run.WaitFor("epoch 2/")) << run.Err();
  Fill();
  LeaveRoom(2 << 20);
  run.Signal(SIGINT);
  EXPECT_TRUE(run.WaitFor("room for the last checkpoint: ")) << run.Err() << Log();
  const Ended ended = run.Wait(60s);
  EXPECT_EQ(ended.code, 3) << ended.err << Log();
  EXPECT_FALSE(Weights("disk/run").empty());
  EXPECT_EQ(Summary("disk/run")["status"], "interrupted");
}

// Its server makes the last checkpoint later, when there is room.
TEST_F(FullDisk, ARunWithAJournalThatIsAskedToStopSaysHowItGoesOn) {
  Process run(OnDisk({"durability.acknowledge=journal", "durability.journal=64KiB",
                      "train.epochs=60", "cluster.lease=2s", "cluster.deadline=5s"}));
  ASSERT_TRUE(run.WaitFor("epoch 2/60")) << run.Err();
  EXPECT_TRUE(FillUntil(run, "waiting for shard ")) << run.Err() << Log();
  run.Signal(SIGINT);
  const Ended ended = run.Wait(60s);
  EXPECT_EQ(ended.code, 3) << ended.err << Log();
  const std::string dir = Path("disk/run");
  EXPECT_THAT(ended.err, HasSubstr("\n  ps-server --recover " + dir +
                                   "\nThen go on with:\n  ps-run --resume " + dir));
  EXPECT_THAT(ended.out, Not(HasSubstr("ps-run --resume")));
  Free();
  const Ended recovered = RunProgram({"ps-server", "--recover", dir});
  EXPECT_EQ(recovered.code, 3) << recovered.err << Log();
  EXPECT_TRUE(fs::exists(dir + "/server/checkpoint-000000000001/manifest"));
  const Ended resumed = RunProgram({"ps-run", "--resume", dir});
  EXPECT_EQ(resumed.code, 0) << resumed.err << Log();
  EXPECT_EQ(Summary("disk/run")["epochs"], 60.0);
}

TEST_F(FullDisk, ResultsThatWaitForRoomAreGivenUpWhenAsked) {
  Process server({"ps-server", "--config", SmallConfig(), "--port", "0", "--run-dir",
                  Path("disk/run"), "--set", "train.epochs=40", "--set", "cluster.lease=2s",
                  "--set", "cluster.deadline=5s"});
  const std::string address = ServerOf(server);
  Process first({"ps-worker", "--cpu", "--server", address});
  Process second({"ps-worker", "--cpu", "--server", address});
  ASSERT_TRUE(server.WaitFor("epoch 2: test accuracy")) << server.Err();
  Fill();
  const auto waits_for = [&] {
    const Json status = StatusOf(address);
    return status.is_object() ? status["waits_for"].get<std::string>() : "";
  };
  EXPECT_TRUE(Eventually([&] { return waits_for().find("last checkpoint") != std::string::npos; }));
  // The run is over without its last checkpoint, and its weights wait as well.
  EXPECT_EQ(RunProgram({"ps-ctl", "drain", "--server", address}).code, 0);
  EXPECT_TRUE(Eventually([&] { return waits_for().find("the results") != std::string::npos; }));
  const Ended ended = server.Wait(60s);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("waiting for room on " + Path("disk")));
  EXPECT_THAT(ended.err, HasSubstr("weights.safetensors"));
  EXPECT_EQ(first.Wait().code, 0);
  EXPECT_EQ(second.Wait().code, 0);
}

}  // namespace
}  // namespace psgd
