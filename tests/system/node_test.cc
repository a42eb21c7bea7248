// Several replicas in one ps-worker: each is a worker, or all are one worker and share its batches.
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class NodeTest : public RunTest {
 protected:
  // Runs one ps-worker with `replicas` replicas. Returns the run's summary.
  Json Train(const std::string& run, const std::string& reduce, int workers, int replicas) {
    Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                            "--run-dir", Path(run)} +
                   Sets({"node.reduce=" + reduce, "cluster.workers=" + std::to_string(workers),
                         "consistency.staleness=0"}));
    Process worker({"ps-worker", "--cpu", "--replicas", std::to_string(replicas), "--server",
                    ServerOf(server)});
    const Ended ended = worker.Wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(server.Wait().code, 0);
    return Summary(run);
  }

  // The error of a ps-worker whose replicas cannot reduce in this way. The run goes on without it.
  std::string Refused(const std::string& reduce, int replicas) {
    Process server(std::vector<std::string>{"ps-server", "--config", SmallConfig(), "--port", "0",
                                            "--run-dir", Path("refused")} +
                   Sets({"node.reduce=" + reduce, "cluster.workers=1"}));
    const std::string address = ServerOf(server);
    const Ended worker = RunProgram(
        {"ps-worker", "--cpu", "--replicas", std::to_string(replicas), "--server", address});
    EXPECT_EQ(worker.code, 2) << worker.err;
    EXPECT_EQ(RunProgram({"ps-ctl", "drain", "--server", address}).code, 0);
    EXPECT_EQ(server.Wait().code, 3);
    return worker.err;
  }
};

TEST_F(NodeTest, ReplicasThatShareBatchesTrainAsOneWorker) {
  const Json alone = Train("alone", "none", 1, 1);
  const Json together = Train("together", "host", 1, 2);
  EXPECT_EQ(together["workers"], 1);
  EXPECT_EQ(together["steps"], alone["steps"]);
  EXPECT_EQ(together["bytes_pushed_dense"], alone["bytes_pushed_dense"]);
  // The gradients are the same, except for the order of addition.
  EXPECT_NEAR(together["test_loss"].get<double>(), alone["test_loss"].get<double>(), 1e-3);
  EXPECT_GE(together["test_accuracy"].get<double>(), 0.85);
}

TEST_F(NodeTest, OtherwiseEachIsAWorker) {
  const Json apart = Train("apart", "none", 2, 2);
  EXPECT_EQ(apart["workers"], 2);
  EXPECT_GE(apart["test_accuracy"].get<double>(), 0.85);
}

TEST_F(NodeTest, ABatchThatDoesNotDivideIsTheUsersFault) {
  EXPECT_THAT(Refused("host", 5), HasSubstr("a batch of 32 does not divide among 5 replicas"));
}

TEST_F(NodeTest, NcclOnProcessorsIsTheUsersFault) {
  EXPECT_THAT(Refused("nccl", 2),
              AllOf(HasSubstr("nccl is for GPUs"), HasSubstr("node.reduce: host")));
  const Ended dry = RunProgram(std::vector<std::string>{"ps-worker", "--cpu", "--replicas", "2",
                                                        "--dry-run", SmallConfig()} +
                               Sets({"node.reduce=nccl"}));
  EXPECT_EQ(dry.code, 2) << dry.out;
  EXPECT_THAT(dry.err, HasSubstr("nccl is for GPUs"));
  const Ended run = RunSmall("run", Sets({"node.reduce=nccl"}));
  EXPECT_EQ(run.code, 2) << run.out;
  EXPECT_THAT(run.err, AllOf(HasSubstr("nccl is for GPUs"), HasSubstr("--gpu"), HasSubstr("none")));
}

}  // namespace
}  // namespace psgd
