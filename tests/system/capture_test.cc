// Captures the traffic of a run's data ports. The weights are known: the capture must show them
// without CURVE or TLS (which proves that the test works), and must not show them with it.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>

#include "tests/certificates/certificates.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

constexpr char kTcpdump[] = "/usr/bin/tcpdump";
// Bytes of weights to search for in a capture: too many to match by chance.
constexpr size_t kWindow = 32;

class Capture : public RunTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kTcpdump)) {
      GTEST_SKIP() << "no " << kTcpdump << "; scripts/install-packages.sh installs it";
    }
    // tcpdump prints that it listens, or why it may not.
    Process probe(Tcpdump("probe.pcap", "port 1"));
    if (!probe.WaitFor("listening on", std::chrono::seconds(10))) {
      GTEST_SKIP() << "capturing is not permitted here: " << probe.Err();
    }
  }

  std::vector<std::string> Tcpdump(const std::string& file, const std::string& filter) const {
    return {kTcpdump, "-i", "lo",   "-U", "-s",       "0",   "-B",
            "65536",  "-Z", "root", "-w", Path(file), filter};
  }

  // The traffic of the data ports during a run whose weights never change.
  std::string Traffic(const std::string& run, const std::vector<std::string>& security) {
    Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                            "--run-dir", Path(run)} +
                   security +
                   Sets({"cluster.workers=1", "train.epochs=1", "optimizer.sgd.learning_rate=1e-30",
                         "optimizer.sgd.momentum=0", "cluster.transport=" + GetParam()}));
    const std::string address = ServerOf(server);
    EXPECT_NE(address, "") << server.Err();
    const Ended status = RunProgram(
        std::vector<std::string>{"ps-ctl", "status", "--server", address, "--json"} + security);
    std::string filter;
    const Json told = Json::parse(status.out, nullptr, false);
    for (const Json& shard : told["shards"]) {
      const std::string endpoint = shard["endpoint"];
      filter += (filter.empty() ? "tcp port " : " or tcp port ") +
                endpoint.substr(endpoint.rfind(':') + 1);
    }
    EXPECT_NE(filter, "") << status.out << status.err;
    Process tcpdump(Tcpdump(run + ".pcap", filter));
    EXPECT_TRUE(tcpdump.WaitFor("listening on")) << tcpdump.Err();
    EXPECT_EQ(
        RunProgram(std::vector<std::string>{"ps-worker", "--cpu", "--server", address} + security)
            .code,
        0);
    EXPECT_EQ(server.Wait().code, 0) << server.Err();
    tcpdump.Signal(SIGINT);  // tcpdump writes its capture
    const Ended captured = tcpdump.Wait();
    EXPECT_THAT(captured.err, testing::HasSubstr("0 packets dropped by kernel"));
    return File(run + ".pcap");
  }

  // How many windows of the run's weights the capture shows.
  size_t WeightsSeen(const std::string& run, const std::string& capture) const {
    const std::string file = Weights(run);
    uint64_t header = 0;
    file.copy(reinterpret_cast<char*>(&header), sizeof header);
    const std::string_view weights = std::string_view(file).substr(sizeof header + header);
    std::set<std::string_view> windows;
    for (size_t at = 0; at + kWindow <= weights.size(); at += kWindow) {
      const std::string_view window = weights.substr(at, kWindow);
      if (window.find_first_not_of('\0') != window.npos) windows.insert(window);  // biases are 0
    }
    EXPECT_GT(windows.size(), 200u);
    return static_cast<size_t>(std::count_if(
        windows.begin(), windows.end(),
        [&](std::string_view window) { return capture.find(window) != capture.npos; }));
  }

  const Certificates certificates_;
};

TEST_P(Capture, WeightsAreSeenWithoutSecurityAlone) {
  const std::string open = Traffic("open", {});
  EXPECT_GT(WeightsSeen("open", open), 200u);
  const std::string secured = Traffic("secured", {"--tls-dir", certificates_.dir()});
  EXPECT_TRUE(Weights("secured") == Weights("open"));
  EXPECT_GT(secured.size(), 1'000'000u);  // 64 pulls of 10 kB, and as many pushes
  EXPECT_EQ(WeightsSeen("secured", secured), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Capture, testing::Values("zmq", "grpc"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace psgd
