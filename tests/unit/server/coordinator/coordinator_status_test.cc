// The coordinator's counts for people, and a worker that is asked to leave.
#include "tests/unit/server/coordinator/coordinator_fixture.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

HeartbeatReply Beat(CoordinatorFixture& run, const WorkerKey& key,
                    const WorkerReport& report = {}) {
  HeartbeatRequest request;
  *request.mutable_key() = key;
  *request.mutable_report() = report;
  auto reply = run.core().Heartbeat(request, run.now());
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok() ? *reply : HeartbeatReply();
}

// A report comes again because its answer was lost, perhaps to a server that restarted meanwhile.
TEST(CoordinatorStatus, CountsAReportOnce) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 4));
  HeartbeatRequest request;
  *request.mutable_key() = run.JoinAndRegister();
  request.set_number(1);
  request.mutable_report()->set_samples(100);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(run.core().Heartbeat(request, run.now()).ok());
  EXPECT_EQ(run.core().Status(run.now()).total().samples(), 100u);
  run.core().Restore(run.core().Save(run.now()), run.now());
  EXPECT_TRUE(run.core().Heartbeat(request, run.now()).ok());
  EXPECT_EQ(run.core().Status(run.now()).total().samples(), 100u);
  request.set_number(2);
  EXPECT_TRUE(run.core().Heartbeat(request, run.now()).ok());
  EXPECT_EQ(run.core().Status(run.now()).total().samples(), 200u);
}

TEST(CoordinatorStatus, NotesSayOnceWhatMayNotBeMeant) {
  Config config = CoordinatorConfig(1, 1, 4);
  config.mutable_compression()->mutable_push()->mutable_int8();
  config.mutable_compression()->set_dense_below(4096);
  CoordinatorFixture run(config);
  const WorkerKey key = run.JoinAndRegister();
  WorkerReport report;
  report.add_notes("odd");
  for (int i = 0; i < 20; ++i) {
    Beat(run, key, report);
    if (i > 0) report.set_notes(0, std::to_string(i));
  }
  const StatusReply status = run.core().Status(run.now());
  EXPECT_EQ(status.codec_carries(), "0 of 1 tensors");
  ASSERT_EQ(status.total().notes_size(), 8) << "of many the first";
  EXPECT_THAT(status.total().notes(0), HasSubstr("codec int8 carries 0 of 1 tensors"));
  EXPECT_THAT(status.total().notes(1), "odd");
  EXPECT_THAT(status.total().notes(2), "1");
}

TEST(CoordinatorStatus, CountsHistogramsForEachWorkerAndForAll) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 4));
  const WorkerKey first = run.JoinAndRegister();
  const WorkerKey second = run.JoinAndRegister();
  WorkerReport report;
  report.add_pull_staleness(3);
  report.add_push_latency(0);
  report.add_push_latency(5);
  report.add_pull_latency(7);
  Beat(run, first, report);
  Beat(run, first, report);
  Beat(run, second, report);
  const StatusReply status = run.core().Status(run.now());
  EXPECT_THAT(status.workers(0).push_latency(), ElementsAre(0, 10));
  EXPECT_THAT(status.workers(1).push_latency(), ElementsAre(0, 5));
  EXPECT_THAT(status.workers(1).pull_staleness(), ElementsAre(3));
  EXPECT_THAT(status.total().push_latency(), ElementsAre(0, 15));
  EXPECT_THAT(status.total().pull_latency(), ElementsAre(21));
}

TEST(CoordinatorStatus, AHostileHistogramSizesNothing) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 4));
  const WorkerKey key = run.JoinAndRegister();
  WorkerReport report;
  for (int i = 0; i < 100000; ++i) report.add_push_latency(1);
  Beat(run, key, report);
  EXPECT_LT(run.core().Status(run.now()).total().push_latency_size(), 100);
}

TEST(CoordinatorStatus, WhatIsDealtAgainIsNotDone) {
  CoordinatorFixture run(CoordinatorConfig(2, 2, 4));
  const WorkerKey stays = run.JoinAndRegister();
  const WorkerKey leaves = run.JoinAndRegister();
  run.Next(stays);
  run.Next(leaves);
  EXPECT_EQ(run.core().Status(run.now()).epoch(), 0);
  run.Beat(stays, 3);
  run.Beat(leaves, 2);
  EXPECT_EQ(run.core().Status(run.now()).epoch(), 5.0 / 8);
  run.Leave(leaves);
  EXPECT_EQ(run.core().Status(run.now()).epoch(), 5.0 / 8);
  EXPECT_EQ(run.core().Status(run.now()).total().epoch(), 5.0 / 8);
  run.Next(stays, 1);  // gets the two returned batches
  EXPECT_EQ(run.core().Status(run.now()).epoch(), 6.0 / 8);
  run.Next(stays, 2);
  EXPECT_EQ(run.core().Status(run.now()).epoch(), 1);
}

// The server's machine lost power, and its record is old.
TEST(CoordinatorStatus, AWorkerThatIsAheadOfWhatWasDealtIsToldSo) {
  CoordinatorFixture run(CoordinatorConfig(1, 1, 4));
  const WorkerKey key = run.JoinAndRegister();
  run.Next(key);
  run.Beat(key, 4);
  HeartbeatRequest request;
  *request.mutable_key() = key;
  request.mutable_report()->set_clock(5);
  const auto refused = run.core().Heartbeat(request, run.now());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("dealt those up to 4"));
}

TEST(CoordinatorStatus, OneWorkerIsAskedToLeave) {
  CoordinatorFixture run(CoordinatorConfig(2, 1, 4));
  const WorkerKey stays = run.JoinAndRegister();
  const WorkerKey leaves = run.JoinAndRegister();
  Effects effects;
  EXPECT_EQ(run.core().DrainWorker(9, &effects).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(run.core().DrainWorker(leaves.worker(), &effects).ok());
  EXPECT_TRUE(run.core().DrainWorker(leaves.worker(), &effects).ok());
  ASSERT_EQ(effects.news.size(), 1u);
  EXPECT_THAT(effects.news[0], HasSubstr("asked to leave"));
  EXPECT_TRUE(Beat(run, leaves).leave());
  EXPECT_FALSE(Beat(run, leaves).drain());
  EXPECT_FALSE(Beat(run, stays).leave());
  EXPECT_TRUE(run.core().Status(run.now()).workers(1).leaving());

  // A server that is restored from its record still asks the worker to leave.
  CoordinatorFixture again(CoordinatorConfig(2, 1, 4));
  again.core().Restore(run.core().Save(run.now()), again.now());
  EXPECT_TRUE(Beat(again, leaves).leave());

  run.Leave(leaves);
  EXPECT_EQ(run.core().DrainWorker(leaves.worker(), &effects).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Beat(run, run.JoinAndRegister()).leave());  // the worker that takes its place stays
}

}  // namespace
}  // namespace psgd
