// Damaged checkpoints, and bytes from strangers.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using namespace std::chrono_literals;

class Damage : public RunTest {
 protected:
  // Makes a stopped run with several checkpoints. Returns their folders, oldest first.
  std::vector<fs::path> StoppedRun() {
    Process run(PsRun("run", Sets({"train.epochs=100000", "durability.checkpoint=1 epoch"})));
    EXPECT_TRUE(run.WaitFor("epoch 4/")) << run.Err();
    run.Signal(SIGINT);
    EXPECT_EQ(run.Wait().code, 3);
    std::vector<fs::path> checkpoints;
    for (const auto& entry : fs::directory_iterator(Path("run/server"))) {
      if (entry.path().filename().string().rfind("checkpoint-", 0) == 0) {
        checkpoints.push_back(entry.path());
      }
    }
    std::sort(checkpoints.begin(), checkpoints.end());
    EXPECT_GE(checkpoints.size(), 2u);
    return checkpoints;
  }
  static fs::path LargestFile(const fs::path& folder) {
    fs::path largest;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
    }
    return largest;
  }
  static void FlipBit(const fs::path& file) {
    FILE* f = fopen(file.c_str(), "r+b");
    const long middle = static_cast<long>(fs::file_size(file) / 2);
    fseek(f, middle, SEEK_SET);
    const int byte = fgetc(f);
    fseek(f, middle, SEEK_SET);
    fputc(byte ^ 4, f);
    fclose(f);
  }
  Ended Resume() {
    return RunProgram({"ps-run", "--resume", Path("run"), "--set", "train.max_steps=1"});
  }
};

TEST_F(Damage, AFlippedBitFallsBackToTheCheckpointBefore) {
  const auto checkpoints = StoppedRun();
  FlipBit(LargestFile(checkpoints.back()));
  const Ended resumed = Resume();
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const std::string log = File("run/server/server.log");
  EXPECT_THAT(log, HasSubstr(checkpoints.back().filename().string()));
  const auto before =
      std::stoul(checkpoints[checkpoints.size() - 2].filename().string().substr(11));
  EXPECT_THAT(log, HasSubstr("resuming from checkpoint " + std::to_string(before) + " "));
  EXPECT_THAT(resumed.err, HasSubstr("is damaged and passed over"));
  EXPECT_THAT(resumed.err, HasSubstr("goes on from checkpoint " + std::to_string(before) + "\n"));
}

TEST_F(Damage, ATruncatedFileFallsBackToTheCheckpointBefore) {
  const auto checkpoints = StoppedRun();
  const fs::path file = LargestFile(checkpoints.back());
  fs::resize_file(file, fs::file_size(file) / 2);
  const Ended resumed = Resume();
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const auto before =
      std::stoul(checkpoints[checkpoints.size() - 2].filename().string().substr(11));
  EXPECT_THAT(File("run/server/server.log"),
              HasSubstr("resuming from checkpoint " + std::to_string(before) + " "));
}

TEST_F(Damage, VerifySaysWhichCheckpointsAreSound) {
  const auto checkpoints = StoppedRun();
  const Ended sound = RunProgram({"ps-ctl", "verify", Path("run")});
  EXPECT_EQ(sound.code, 0) << sound.err;
  EXPECT_THAT(sound.out, HasSubstr("sound"));
  FlipBit(LargestFile(checkpoints.back()));
  const Ended damaged = RunProgram({"ps-ctl", "verify", Path("run"), "--json"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("1 of the checkpoints of " + Path("run") + " is damaged"));
  const Json list = Json::parse(damaged.out, nullptr, false)["checkpoints"];
  ASSERT_EQ(list.size(), checkpoints.size());
  EXPECT_EQ(list[0]["state"], "damaged");
  EXPECT_THAT(list[0]["problem"].get<std::string>(), HasSubstr(checkpoints.back().string()));
  EXPECT_EQ(list[1]["state"], "sound");
  EXPECT_EQ(RunProgram({"ps-ctl", "verify", Path("nothing")}).code, 2);
}

TEST_F(Damage, VerifyNamesTheFileThatIsDamagedOrGone) {
  const auto checkpoints = StoppedRun();
  const fs::path newest = checkpoints.back();
  fs::path part;
  for (const auto& entry : fs::directory_iterator(newest / "shard-1")) {
    if (entry.path().extension() == ".sst") part = entry.path();
  }
  ASSERT_FALSE(part.empty());
  const auto half = [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); };
  const auto gone = [](const fs::path& file) { fs::remove_all(file); };
  const std::vector<std::pair<fs::path, std::function<void(const fs::path&)>>> damages = {
      {part, FlipBit},
      {part, half},
      {part, gone},
      {newest / "shard-0", gone},
      {newest / "manifest", FlipBit},
      {newest / "manifest", half}};
  for (const auto& [file, damage] : damages) {
    fs::remove_all(Path("sound"));
    fs::copy(newest, Path("sound"), fs::copy_options::recursive);
    damage(file);
    const Ended verified = RunProgram({"ps-ctl", "verify", Path("run"), "--json"});
    EXPECT_EQ(verified.code, 1) << file << verified.err;
    EXPECT_THAT(verified.err, HasSubstr("1 of the checkpoints of " + Path("run") + " is damaged"));
    const Json list = Json::parse(verified.out, nullptr, false)["checkpoints"];
    ASSERT_EQ(list.size(), checkpoints.size()) << file;
    for (size_t i = 0; i < list.size(); ++i)
      EXPECT_EQ(list[i]["state"], i == 0 ? "damaged" : "sound") << file;
    EXPECT_THAT(list[0]["problem"].get<std::string>(), HasSubstr(file.string()));
    fs::remove_all(newest);
    fs::copy(Path("sound"), newest, fs::copy_options::recursive);
  }
  EXPECT_EQ(RunProgram({"ps-ctl", "verify", Path("run")}).code, 0);
  // Without its manifest it looks like one that was never completed, which is no damage.
  fs::remove(newest / "manifest");
  const Ended verified = RunProgram({"ps-ctl", "verify", Path("run"), "--json"});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_EQ(Json::parse(verified.out, nullptr, false)["checkpoints"][0]["state"], "incomplete");
}

TEST_F(Damage, PrunedAndResumedFromAnOlderOne) {
  const auto checkpoints = StoppedRun();
  const std::string oldest =
      std::to_string(std::stoul(checkpoints[0].filename().string().substr(11)));
  const Ended listed = RunProgram({"ps-ctl", "checkpoints", Path("run"), "--json"});
  const Json list = Json::parse(listed.out, nullptr, false)["checkpoints"];
  const int epochs = static_cast<int>(list.back()["epoch"].get<double>()) + 3;
  // The run resumes from an older checkpoint, while the later checkpoints stay.
  const Ended resumed =
      RunProgram({"ps-run", "--resume", Path("run"), "--checkpoint", oldest, "--set",
                  "train.epochs=" + std::to_string(epochs), "--set", "durability.keep=100"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(File("run/server/server.log"), HasSubstr("resuming from checkpoint " + oldest + " "));
  for (const fs::path& checkpoint : checkpoints) EXPECT_TRUE(fs::exists(checkpoint)) << checkpoint;
  const Ended unknown = RunProgram({"ps-run", "--resume", Path("run"), "--checkpoint", "mine"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("there is no checkpoint mine"));

  const Ended pruned = RunProgram({"ps-ctl", "prune", Path("run"), "--keep", "1", "--json"});
  EXPECT_EQ(pruned.code, 0) << pruned.err;
  // The resumed run may have been past its epochs, and may have made no checkpoint.
  EXPECT_GE(Json::parse(pruned.out, nullptr, false)["removed"].size(), checkpoints.size() - 1);
  const Ended left = RunProgram({"ps-ctl", "checkpoints", Path("run"), "--json"});
  EXPECT_EQ(Json::parse(left.out, nullptr, false)["checkpoints"].size(), 1u);
}

TEST_F(Damage, WhenAllAreDamagedNothingIsLoaded) {
  for (const fs::path& checkpoint : StoppedRun()) FlipBit(checkpoint / "manifest");
  const Ended resumed = Resume();
  EXPECT_NE(resumed.code, 0);
  EXPECT_THAT(resumed.err, HasSubstr("checkpoint"));
  const Ended exported =
      RunProgram({"ps-ctl", "export", "--run-dir", Path("run"), "--out", Path("w.safetensors")});
  EXPECT_NE(exported.code, 0);
  EXPECT_FALSE(fs::exists(Path("w.safetensors")));
}

// Sends random bytes until the other side hangs up or takes no more.
void SendGarbage(const std::string& address, unsigned seed, const std::string& first) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  (void)connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to);
  Pause(20ms);
  std::mt19937 random(seed);
  std::string bytes = first;
  for (int i = 0; i < 4096; ++i) bytes.push_back(static_cast<char>(random()));
  for (int i = 0; i < 4; ++i) (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  Pause(20ms);
  close(fd);
}

class Strangers : public Damage, public testing::WithParamInterface<const char*> {};

TEST_P(Strangers, GarbageOnEveryPortDoesNotStopTheRun) {
  const std::string transport = GetParam();
  Process run(PsRun("run", Sets({"train.epochs=100000", "cluster.transport=" + transport})));
  ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
  const std::string control = ServerOf(run);
  std::vector<std::string> addresses{control};
  const Json status = StatusOf(control);
  for (const Json& shard : status["shards"]) {
    const std::string endpoint = shard["endpoint"];
    addresses.push_back(endpoint.substr(endpoint.find("//") + 2));
  }
  ASSERT_EQ(addresses.size(), 3u);
  // Nothing, or the greeting of HTTP/2 or of ZeroMQ, then noise.
  const std::vector<std::string> greetings{
      "", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      std::string("\xff\0\0\0\0\0\0\0\x01\x7f\x03\x00NULL", 16) + std::string(48, '\0')};
  for (unsigned seed = 0; seed < 12; ++seed) {
    for (const std::string& address : addresses) {
      SendGarbage(address, seed, greetings[seed % greetings.size()]);
    }
  }
  const uint64_t clock = std::stoull(StatusOf(control)["clock"].get<std::string>());
  EXPECT_TRUE(Eventually([&] {
    return std::stoull(StatusOf(control)["clock"].get<std::string>()) > clock + 100;
  })) << "training stands still";
  run.Signal(SIGINT);
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_THAT(ended.err, Not(HasSubstr("killed by signal")));
  EXPECT_GE(Summary("run")["test_accuracy"].get<double>(), 0.85);
}

INSTANTIATE_TEST_SUITE_P(Transports, Strangers, testing::Values("zmq", "grpc"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace psgd
