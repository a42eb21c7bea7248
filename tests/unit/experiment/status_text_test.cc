// What ps-ctl status and the metrics page show for a shard that waits for its disk.
#include "experiment/launch/status_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "experiment/launch/progress.h"
#include "experiment/record/records.h"
#include "server/control/metrics_page.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(StatusText, AShardThatWaitsForItsDiskIsShown) {
  StatusReply status;
  status.set_state(StatusReply::TRAINING);
  for (uint32_t s = 0; s < 2; ++s) status.add_shards()->set_shard(s);
  EXPECT_THAT(StatusText(status), Not(HasSubstr("waits")));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("psgd_journal_stalled{shard=\"1\"} 0\n"));
  status.mutable_shards(1)->set_stalled("No space left on device");
  EXPECT_THAT(StatusText(status),
              HasSubstr("shard 1 waits, since its journal cannot be written: No space left"));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("psgd_journal_stalled{shard=\"1\"} 1\n"));
}

TEST(StatusText, AWorkerWhoseMessagesTakeASlowerWayIsShown) {
  StatusReply status;
  WorkerStatus& worker = *status.add_workers();
  worker.mutable_key()->set_worker(3);
  worker.set_live(true);
  EXPECT_THAT(StatusText(status), Not(HasSubstr("worker 3:")));
  worker.set_detour("UCX gets no answer");
  status.mutable_total()->add_notes("odd");
  EXPECT_THAT(StatusText(status),
              AllOf(HasSubstr("  worker 3: UCX gets no answer\n"), HasSubstr("\nnote: odd\n")));
}

TEST(StatusText, WhatWasNotMeasuredYetIsNotZero) {
  StatusReply status;
  status.add_workers()->set_live(true);
  EXPECT_THAT(StatusText(status),
              AllOf(Not(HasSubstr("loss")), Not(HasSubstr("samples/s,")), Not(HasSubstr("pushed")),
                    Not(HasSubstr("waited for data")), HasSubstr("trained for 0.0 s")));
  EXPECT_THAT(StatusText(status), testing::ContainsRegex("live +0 +- +- "));
  Record json = Record::parse(StatusJson(status));
  EXPECT_TRUE(json["train_loss"].is_null());
  EXPECT_TRUE(json["workers"][0]["input_stall"].is_null());
  EXPECT_EQ(json["epoch"], 0);
  status.mutable_workers(0)->set_samples_per_second(100);
  status.mutable_total()->set_steps(1);
  EXPECT_THAT(StatusText(status), AllOf(HasSubstr("loss 0.0000"), HasSubstr("pushed"),
                                        HasSubstr("waited for data 0.0 %")));
  json = Record::parse(StatusJson(status));
  EXPECT_EQ(json["train_loss"], 0);
  EXPECT_EQ(json["workers"][0]["input_stall"], 0);
}

TEST(StatusText, NumbersHaveMeasuresInPlaceOfAnAccuracy) {
  StatusReply status;
  status.mutable_config()->mutable_data()->set_target_kind(DataConfig::NUMBER);
  status.add_workers()->set_live(true);
  status.mutable_workers(0)->set_samples_per_second(100);
  status.set_train_loss(0.25);
  EvalResult& result = *status.add_evaluations();
  result.set_loss(0.5);
  (*result.mutable_measures())["rmse"] = 48213.71;
  (*result.mutable_measures())["r2"] = 0.75;
  EXPECT_THAT(StatusText(status),
              AllOf(Not(HasSubstr("accuracy")), HasSubstr("loss 0.2500"),
                    testing::ContainsRegex("epoch +test loss +samples +r2 +rmse"),
                    testing::ContainsRegex("0.5000 +0 +0.7500 +48214")));
  EXPECT_TRUE(Record::parse(StatusJson(status))["train_accuracy"].is_null());
  EXPECT_EQ(EvaluationText(result, 3), "epoch 0/3: test loss 0.5000, r2 0.7500, rmse 48214");
}

// A program need not say what it measured, and has its own learning rate.
TEST(StatusText, WhatAProgramDoesNotTellIsNotZero) {
  StatusReply status;
  status.mutable_config()->mutable_model()->mutable_client();
  status.mutable_config()->mutable_optimizer()->mutable_worker();
  status.add_workers()->set_live(true);
  status.mutable_workers(0)->set_samples_per_second(100);
  status.set_samples_per_second(100);
  status.add_evaluations()->set_loss(0.5);
  EXPECT_THAT(StatusText(status), AllOf(Not(HasSubstr("loss 0")), Not(HasSubstr("train accuracy")),
                                        HasSubstr("100 samples/s"), Not(HasSubstr("learning rate")),
                                        testing::ContainsRegex("0 +0.5000 ")));
  EXPECT_TRUE(Record::parse(StatusJson(status))["train_loss"].is_null());
  status.set_train_loss(0.25);
  EXPECT_THAT(StatusText(status), AllOf(HasSubstr("loss 0.2500"), Not(HasSubstr("accuracy 0"))));
}

TEST(StatusText, WhatTheRunWaitsForAndWhatFailedIsShown) {
  StatusReply status;
  EXPECT_THAT(RenderPrometheus(status),
              AllOf(HasSubstr("\npsgd_waits 0\n"), HasSubstr("\npsgd_checkpoint_failed 0\n")));
  status.set_waits_for("waiting for server 2, which has shard 1");
  status.set_failed_checkpoint("checkpoint 3: no space left");
  EXPECT_THAT(StatusText(status),
              AllOf(HasSubstr("\n  waiting for server 2, which has shard 1\n"),
                    HasSubstr("could not be written: checkpoint 3: no space left\n")));
  EXPECT_THAT(RenderPrometheus(status),
              AllOf(HasSubstr("\npsgd_waits 1\n"), HasSubstr("\npsgd_checkpoint_failed 1\n")));
}

TEST(StatusText, WhoHoldsTheShardsIsShown) {
  StatusReply status;
  status.add_shards()->set_server(1);
  EXPECT_THAT(StatusText(status), Not(HasSubstr("servers")));
  EXPECT_THAT(RenderPrometheus(status), Not(HasSubstr("psgd_server_")));
  EXPECT_THAT(RenderPrometheus(status), Not(HasSubstr("psgd_shard_server")));
  for (uint32_t shard = 1; shard < 3; ++shard) {
    status.add_shards()->set_shard(shard);
    status.mutable_shards()->rbegin()->set_server(2);
    status.mutable_shards()->rbegin()->set_bytes(2048);
  }
  for (uint32_t server = 1; server < 3; ++server) {
    status.add_servers()->set_server(server);
    status.mutable_servers()->rbegin()->set_name(absl::StrCat("host-", server));
    status.mutable_servers()->rbegin()->set_connected(true);
  }
  status.mutable_servers(0)->set_leads(true);
  status.mutable_servers(0)->set_link(1.25e9);
  status.mutable_servers(1)->set_beside_worker(true);
  status.mutable_servers(1)->set_seconds_since_heard(0.5);
  status.mutable_shards(0)->add_copies(2);
  EXPECT_THAT(
      StatusText(status),
      testing::ContainsRegex("1 .leads. +host-1 +- +10gbit +live +1 +0 B +0.0 % +0 +0.0 s ago"));
  EXPECT_THAT(StatusText(status),
              testing::ContainsRegex(
                  "2 +host-2 +a worker +- +live +2 +4.10 kB +100.0 % +0 and 1 catching up "
                  "+0.5 s ago"));
  const std::string page = RenderPrometheus(status);
  for (const char* line : {"live{L} 1", "leads{L} 0", "leaving{L} 0", "catching_up{L} 1",
                           "shards{L} 2", "bytes{L} 4096", "heard_seconds{L} 0.5"}) {
    EXPECT_THAT(page, HasSubstr(absl::StrReplaceAll(absl::StrCat("\npsgd_server_", line, "\n"),
                                                    {{"{L}", "{server=\"2\",name=\"host-2\"}"}})));
  }
  EXPECT_THAT(page,
              HasSubstr("psgd_shard_server{shard=\"0\"} 1\npsgd_shard_server{shard=\"1\"} 2\n"));
  status.mutable_servers(1)->set_connected(false);
  EXPECT_THAT(StatusText(status), testing::ContainsRegex("2 +host-2 +a worker +- +away +2"));
  EXPECT_THAT(RenderPrometheus(status),
              HasSubstr("psgd_server_live{server=\"2\",name=\"host-2\"} 0\n"));
}

TEST(StatusText, BatchesOfLostWorkersAreCounted) {
  StatusReply status;
  EXPECT_THAT(StatusText(status), Not(HasSubstr("dealt again")));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("\npsgd_batches_repeated_total 0\n"));
  status.set_batches_repeated(5);
  status.set_batches_lost(2);
  EXPECT_THAT(StatusText(status),
              HasSubstr("of workers that left or died, batches: 5 dealt again, 2 left out\n"));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("\npsgd_batches_repeated_total 5\n"));
  EXPECT_THAT(RenderPrometheus(status), HasSubstr("\npsgd_batches_lost_total 2\n"));
}

}  // namespace
}  // namespace psgd
