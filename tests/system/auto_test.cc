// Runs that choose their codecs themselves (compression.push: auto).
#include <signal.h>

#include <algorithm>

#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;

class Auto : public RunTest {
 protected:
  // Checks that the chosen codec is the fastest by the record's figures.
  static void CheckTheFastestIsTaken(const Json& record) {
    EXPECT_GT(record["bytes_per_second"].get<double>(), 1e5);
    for (const Json& tensor : record["tensors"]) {
      double least = 1e9, taken = 0;
      for (const Json& candidate : tensor["candidates"]) {
        const double seconds = candidate["seconds_encode"].get<double>() +
                               candidate["seconds_send"].get<double>() +
                               candidate["seconds_decode"].get<double>();
        EXPECT_GT(candidate["bytes"].get<int64_t>(), 0);
        least = std::min(least, seconds);
        if (candidate["codec"] == tensor["codec"]) taken = seconds;
      }
      EXPECT_EQ(taken, least) << tensor.dump();
    }
  }
};

TEST_F(Auto, TrainsToTheEndAndShowsItsTable) {
  const Ended ended = RunSmall("run", Sets({"compression.push=auto"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("codecs of worker 0 from step 13 on: the link carries "));
  for (const char* column : {"tensor", "fp16", "int8", "onebit", "topk", "fc1.weight"}) {
    EXPECT_THAT(ended.err, HasSubstr(column));
  }
  EXPECT_THAT(ended.out, HasSubstr("push auto"));
  EXPECT_THAT(File("run/worker-1/worker.log"), HasSubstr("fc1.weight: "));

  const Json summary = Summary("run");
  EXPECT_GE(summary["test_accuracy"].get<double>(), 0.85) << "it did not learn";
  EXPECT_EQ(summary["rejected"], Json::object());
  EXPECT_EQ(summary["codec"], "auto");
  ASSERT_TRUE(summary["codecs"].contains("fc1.weight")) << summary["codecs"];
  // Half of the dense bytes, and headers. The far larger measurements of the link are no pushes.
  EXPECT_LT(summary["bytes_pushed"], summary["bytes_pushed_dense"]);
  EXPECT_LT(summary["bytes_pulled"].get<double>(),
            1.25 * summary["bytes_pulled_dense"].get<double>());

  const std::vector<Json> records = Metrics("run", "codecs");
  ASSERT_GE(records.size(), 2u);
  for (int worker : {0, 1}) {
    const auto found = std::ranges::find_if(
        records, [&](const Json& record) { return record["worker"] == worker; });
    ASSERT_NE(found, records.end());
    EXPECT_EQ((*found)["clock"], 12);
    EXPECT_EQ((*found)["tensors"].size(), 2u) << "biases are too small to be chosen for";
    CheckTheFastestIsTaken(*found);
  }
  const Ended status = RunProgram({"ps-ctl", "status", "--run-dir", Path("run")});
  EXPECT_THAT(status.out, HasSubstr("codecs of worker 0 from step 13 on"));
}

TEST_F(Auto, TravelsOverEveryTransport) {
  for (const char* transport : {"ipc", "grpc"}) {
    SCOPED_TRACE(transport);
    const Ended ended = RunSmall(
        transport, Sets({"compression=auto", "train.epochs=1", "compression.dense_below=256",
                         std::string("cluster.transport=") + transport}));
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_GE(Metrics(transport, "codecs").size(), 2u);
    EXPECT_EQ(Summary(transport)["status"], "finished");
  }
}

TEST_F(Auto, IsMeasuredAgainAfterAWhile) {
  Process run(PsRun("run", Sets({"compression.push.auto.remeasure=100ms", "train.epochs=100000"})));
  const auto measurements = [&] {
    const std::string log = File("run/worker-0/worker.log");
    const std::string line = "the link carries";
    int count = 0;
    for (size_t at = log.find(line); at != std::string::npos; at = log.find(line, at + 1)) ++count;
    return count;
  };
  EXPECT_TRUE(Eventually([&] { return measurements() >= 3; })) << run.Err();
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().code, 3) << run.Err();
}

// A resumed worker has its residuals, and measures again.
TEST_F(Auto, GoesOnFromACheckpoint) {
  const std::vector<std::string> choice =
      Sets({"compression.push.auto.codecs=[{topk: {density: 0.05}}, powersgd]"});
  Process run(PsRun("run", choice + Sets({"train.epochs=1000"})));
  ASSERT_TRUE(run.WaitFor("epoch 1/")) << run.Err();
  run.Signal(SIGINT);
  ASSERT_EQ(run.Wait().code, 3) << run.Err();
  const size_t before = Metrics("run", "codecs").size();
  const int64_t clock = Metrics("run", "checkpoint").back()["clock"].get<int64_t>();
  EXPECT_GE(before, 1u);
  const int epochs = static_cast<int>(Summary("run")["epochs"].get<double>()) + 2;
  const Ended ended = RunProgram(std::vector<std::string>{"ps-run", "--resume", Path("run")} +
                                 Sets({"train.epochs=" + std::to_string(epochs)}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Summary("run")["status"], "finished");
  EXPECT_EQ(Summary("run")["rejected"], Json::object());
  const std::vector<Json> records = Metrics("run", "codecs");
  ASSERT_GT(records.size(), before);
  EXPECT_EQ(records.back()["clock"], clock + 9) << "three candidates of three steps";
}

TEST_F(Auto, SaysWhatCannotBeChosen) {
  const Ended ended = RunSmall("run", Sets({"compression.push.auto.codecs=[topk, dgc]"}));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("compression.push.auto.codecs[1]: dgc applies momentum"));
}

}  // namespace
}  // namespace psgd
