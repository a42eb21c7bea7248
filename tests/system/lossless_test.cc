// The lossless stage with the real programs: the same training to the bit, with fewer bytes each
// way.
#include "tests/system/run_test.h"

namespace psgd {
namespace {

class Lossless : public RunTest {
 protected:
  void Train(const std::string& run, const std::string& sets) const {
    std::vector<std::string> assignments = {"model.hidden=[160, 128]", "data.batch=8",
                                            "train.epochs=1", "consistency.staleness=0",
                                            "optimizer={sgd: {learning_rate: 0.05}}"};
    for (size_t begin = 0; begin < sets.size();) {
      const size_t end = std::min(sets.find(';', begin), sets.size());
      if (end > begin) assignments.push_back(sets.substr(begin, end - begin));
      begin = end + 1;
    }
    const Ended ended = RunSmall(run, Sets(assignments));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(Summary(run)["rejected"], Json::object());
  }
  double Number(const std::string& run, const char* key) const {
    return Summary(run)[key].get<double>();
  }
};

struct Setting {
  const char* name;
  const char* sets;
  double pushed, pulled;  // largest share of the bytes without the stage
};

class SameTraining : public Lossless, public testing::WithParamInterface<Setting> {};

TEST_P(SameTraining, InFewerBytes) {
  const std::string sets = GetParam().sets;
  Train("plain", sets);
  Train("packed", sets + ";compression.lossless=zstd");
  ASSERT_FALSE(Weights("plain").empty());
  EXPECT_TRUE(Weights("plain") == Weights("packed"));
  const Setting& setting = GetParam();
  EXPECT_LT(Number("packed", "bytes_pushed"), setting.pushed * Number("plain", "bytes_pushed"));
  EXPECT_LT(Number("packed", "bytes_pulled"), setting.pulled * Number("plain", "bytes_pulled"));
  EXPECT_EQ(Summary("packed")["bytes_pushed_dense"], Summary("plain")["bytes_pushed_dense"]);
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, SameTraining,
    testing::Values(
        Setting{"None", "", 0.97, 0.97}, Setting{"Topk", "compression.push=topk", 0.99, 0.97},
        // int8 weights are noise. The stage cannot make them shorter, and must not make them
        // longer.
        Setting{"Int8", "compression.push=int8;compression.pull=int8", 0.97, 1.001},
        Setting{"Fp16", "compression.push=fp16;compression.pull=fp16;cluster.transport=grpc", 0.97,
                0.97},
        Setting{"Factors", "compression.push=factors;compression.pull=delta", 0.97, 0.97},
        Setting{"Journal",
                "compression.push={topk: {values: fp16}};durability.acknowledge=journal;"
                "cluster.transport=ipc",
                0.999, 0.97}),
    [](const auto& info) { return info.param.name; });

// auto counts the bytes that travel.
TEST_F(Lossless, IsPartOfWhatAutoMeasures) {
  Train("run",
        "compression={push: {auto: {codecs: [none], steps: 2}}, lossless: {zstd: {level: 3}}}");
  bool found = false;
  for (const Json& record : Metrics("run", "codecs")) {
    for (const Json& tensor : record["tensors"]) {
      if (tensor["parameter"] != "fc2.weight") continue;
      for (const Json& candidate : tensor["candidates"]) {
        if (candidate["codec"] != "none") continue;
        found = true;
        EXPECT_LT(candidate["bytes"].get<double>(), 0.97 * 4 * 160 * 128);
      }
    }
  }
  EXPECT_TRUE(found);
}

TEST_F(Lossless, MistakesAreTold) {
  Ended ended = RunSmall("bad", Sets({"compression.lossless=zst"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, testing::HasSubstr("did you mean \"zstd\"?"));
  ended = RunSmall("bad", Sets({"compression.lossless.zstd.level=20"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, testing::HasSubstr("must be 1 to 19"));
  const std::string config = SmallConfig(), model = Write("m.yaml", "worker: {sample: 1ms}\n");
  ended = RunProgram({"ps-sim", config, "--model", model, "--set", "compression.lossless=zstd"});
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err,
              testing::HasSubstr("does not know the bytes of compression.lossless: zstd"));
}

}  // namespace
}  // namespace psgd
