// ps-sim after a real run of the same config.
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SimTest : public RunTest {
 protected:
  std::vector<Json> Simulate(const std::vector<std::string>& arguments) const {
    const Ended ended =
        RunProgram(std::vector<std::string>{"ps-sim", Path("small.yaml"), "--json"} + arguments);
    EXPECT_EQ(ended.code, 0) << ended.err;
    std::vector<Json> rows;
    std::stringstream lines(ended.out);
    for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
    return rows;
  }
};

TEST_F(SimTest, PredictsWhatARunDid) {
  const Ended run = RunSmall("run", {"--workers", "1", "--threads", "1"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json summary = Summary("run");

  const auto rows = Simulate({"--calibrate", Path("run"), "--workers", "1,2,4"});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2]["workers"], 4);
  for (const Json& row : rows) EXPECT_GT(row["samples_per_second"], 0);
  // Bytes follow from the config alone. The real run has a few more messages at its start and end.
  const double pushed = summary["bytes_pushed"], pulled = summary["bytes_pulled"];
  EXPECT_NEAR(rows[0]["bytes_pushed"].get<double>(), pushed, 0.05 * pushed);
  EXPECT_NEAR(rows[0]["bytes_pulled"].get<double>(), pulled, 0.05 * pulled);
  EXPECT_EQ(rows[0]["staleness_max"], 0);

  // A saved calibration gives the same answer.
  ASSERT_EQ(RunProgram({"ps-sim", Path("small.yaml"), "--calibrate", Path("run"), "--save",
                        Path("m.yaml")})
                .code,
            0);
  EXPECT_THAT(File("m.yaml"), AllOf(HasSubstr("sample: "), HasSubstr("together: true")));
  const auto once = Simulate({"--model", Path("m.yaml"), "--workers", "2"});
  EXPECT_EQ(Simulate({"--model", Path("m.yaml"), "--workers", "2"}), once);
}

TEST_F(SimTest, SaysWhatIsWrong) {
  const std::string config = SmallConfig();
  const auto error = [&](const std::vector<std::string>& arguments) {
    const Ended ended = RunProgram(std::vector<std::string>{"ps-sim", config} + arguments);
    EXPECT_EQ(ended.code, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(error({}), AllOf(HasSubstr("--calibrate"), HasSubstr("--model")));
  EXPECT_THAT(error({"--calibrate", Path("nothing")}), HasSubstr("config.yaml"));
  EXPECT_THAT(error({"--model", Write("bad.yaml", "worker:\n  sampel: 1ms\n")}),
              AllOf(HasSubstr("bad.yaml:2:3"), HasSubstr("sample")));
  const std::string model = Write("m.yaml", "worker: {sample: 1ms}\n");
  EXPECT_THAT(error({"--model", model, "--workers", "0"}), HasSubstr("--workers"));
  EXPECT_THAT(error({"--model", model, "--link", "fast"}), HasSubstr("--link"));
  EXPECT_THAT(error({"--model", model, "--link", "0mbit"}),
              AllOf(HasSubstr("--link"), HasSubstr("\"0mbit\"")));
  EXPECT_THAT(error({"--model", "/dev/null"}), HasSubstr("worker.sample and worker.step are 0"));
  EXPECT_THAT(error({"--model", model, "--workers", "8", "--global-batch", "4"}),
              HasSubstr("--global-batch 4 is less than a sample"));
  EXPECT_THAT(error({"--model", model, "--servers-on-workers", "--workers", "2", "--shards", "1"}),
              HasSubstr("--servers-on-workers with 2 workers: config: cluster.servers is 2"));
}

TEST_F(SimTest, WritesCurves) {
  SmallConfig();
  const std::string model =
      Write("m.yaml", "worker: {sample: 1ms}\nnetwork: {server_link: 10mbit}\n");
  const Ended ended =
      RunProgram({"ps-sim", Path("small.yaml"), "--model", model, "--workers", "1,8", "--clocks",
                  "20", "--set", "compression.push=none", "--also", "compression.push=fp16",
                  "--svg", Path("curves.svg"), "--csv"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), 5);
  EXPECT_THAT(File("curves.svg"), AllOf(HasSubstr("<svg"), HasSubstr("compression.push=fp16")));
}

// Each of a run's servers has its own link, unless the model sets the number of hosts.
TEST_F(SimTest, ServersHaveLinksOfTheirOwn) {
  SmallConfig();
  const auto speed = [&](const std::string& servers, const std::string& server) {
    const std::string model = Write("m.yaml", "worker: {sample: 1us}\nserver: {" + server +
                                                  "}\nnetwork: {server_link: 10mbit}\n");
    return Simulate({"--model", model, "--workers", "4", "--clocks", "20", "--quiet", "--set",
                     "compression.push=none", "--set", "cluster.slice=1KiB", "--set",
                     "cluster.servers=" + servers})[0]["samples_per_second"]
        .get<double>();
  };
  const double one = speed("1", "cores: 2");
  EXPECT_GT(speed("2", "cores: 2"), 1.5 * one);
  EXPECT_EQ(speed("2", "cores: 2, hosts: 1"), one);
}

}  // namespace
}  // namespace psgd
