#include "experiment/launch/resume_advice.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "experiment/launch/summary_text.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(ResumeAdvice, NamesTheJournalOfARunWithoutCheckpoints) {
  const std::string run = testing::TempDir() + "resume_advice_test";
  std::filesystem::remove_all(run);
  EXPECT_THAT(ResumeAdvice(run, {}), HasSubstr("start anew"));
  std::filesystem::create_directories(run + "/server/journal/coordinator");
  std::ofstream(run + "/server/journal/coordinator/CURRENT") << "MANIFEST-000001\n";
  EXPECT_THAT(ResumeAdvice(run, {}), HasSubstr("ps-server --recover " + run));
  EXPECT_THAT(ResumeAdvice(run, {false, {"python3", "train.py"}}),
              HasSubstr("PSGD_SERVER=HOST:PORT python3 train.py"));
  // A server of a run that was asked to stop takes no workers any more.
  std::filesystem::create_directories(run + "/server/journal/shard-0");
  EXPECT_THAT(ResumeAdvice(run, {.tls_dir = "certs"}, /*stopped=*/true),
              AllOf(HasSubstr("First make a checkpoint of that:\n  ps-server --recover " + run +
                              " --tls-dir certs\nThen go on with:\n  ps-run --resume " + run),
                    Not(HasSubstr("worker"))));
  std::filesystem::remove_all(run);
}

TEST(ResumeAdvice, NamesAllServersThatEtcdKnows) {
  StartedAs started{.etcd = "10.0.0.1:2379", .run_name = "small"};
  started.servers = {"runs/a", "runs/a/server-2"};
  EXPECT_THAT(
      ResumeAdvice("runs/a", started),
      AllOf(HasSubstr("goes on where its journals end with: \n"
                      "  ps-server --recover runs/a --etcd 10.0.0.1:2379\n"
                      "  ps-server --join small --run-dir runs/a/server-2 --results runs/a --etcd "
                      "10.0.0.1:2379\n"
                      "  ps-worker --cpu --etcd 10.0.0.1:2379 --run small"),
            Not(HasSubstr("start anew")), Not(HasSubstr("etcdctl"))));
  started.servers = {"runs/a/server-2"};
  EXPECT_THAT(ResumeAdvice("runs/a", started),
              HasSubstr("ps-server --recover runs/a/server-2 --results runs/a --etcd"));
  started.tls_dir = "certs";
  started.gpus = {"0", "1"};
  started.workers = 2;
  EXPECT_THAT(ResumeAdvice("runs/a", started),
              AllOf(HasSubstr("--results runs/a --etcd 10.0.0.1:2379 --tls-dir certs\n"
                              "  ps-worker --gpu 0 --etcd 10.0.0.1:2379 --run small --tls-dir "
                              "certs\n  ps-worker --gpu 1"),
                    HasSubstr("  # 2 workers in all")));
  started.etcd = "";  // ps-run's own
  EXPECT_THAT(ResumeAdvice("runs/a", started),
              HasSubstr("goes on where its journals end with: ps-run --resume runs/a"));
}

TEST(NextCommands, QuotesTheRunDirectory) {
  Summary summary;
  summary.status = Summary::Status::kFinished;
  const std::string run = "no such/rün 1";
  EXPECT_THAT(NextCommands(summary, run, {}),
              AllOf(HasSubstr("ps-ctl eval --run-dir 'no such/rün 1'\n"),
                    HasSubstr("ps-ctl export --run-dir 'no such/rün 1' --out"),
                    HasSubstr("ps-run 'no such/rün 1/config.yaml' --set ")));
  summary.status = Summary::Status::kFailed;
  EXPECT_THAT(NextCommands(summary, run, {}), HasSubstr("ps-ctl status 'no such/rün 1'\n"));
}

TEST(ResumeCommand, SaysWhatPsRunMustBeToldAgain) {
  EXPECT_EQ(ResumeCommand("runs/a", {}), "ps-run --resume runs/a");
  EXPECT_EQ(ResumeCommand("runs/a", {true, {"python3", "train.py"}}),
            "ps-run --resume runs/a --servers-on-workers -- python3 train.py");
  EXPECT_EQ(ResumeCommand("runs/a", {.etcd = "one:2379"}),
            "ps-run --resume runs/a --etcd one:2379");
  EXPECT_EQ(
      ResumeCommand("runs/a", {.command = {"a"}, .tls_dir = "certs", .gpus = {"0", "1"}}, "7"),
      "ps-run --resume runs/a --checkpoint 7 --gpu 0,1 --tls-dir certs -- a");
}

}  // namespace
}  // namespace psgd
