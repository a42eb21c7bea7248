#include "experiment/record/detail_record.h"

#include <gtest/gtest.h>

#include "common/latency.h"

namespace psgd {
namespace {

void Count(google::protobuf::RepeatedField<uint64_t>* histogram, size_t bin, uint64_t times) {
  while (histogram->size() <= static_cast<int>(bin)) histogram->Add(0);
  (*histogram)[static_cast<int>(bin)] += times;
}

TEST(DetailRecord, LatenciesAreOfWhatCameSince) {
  StatusReply before;
  Count(before.mutable_total()->mutable_push_latency(), 20, 1000);
  Count(before.add_shards()->mutable_journal_latency(), 10, 5);
  StatusReply now = before;
  Count(now.mutable_total()->mutable_push_latency(), 4, 10);
  const Record record = DetailRecord(now, before);
  EXPECT_DOUBLE_EQ(record["push_p99"].get<double>(), LatencyBound(4) * 1e3);
  EXPECT_TRUE(record["pull_p99"].is_null());
  EXPECT_TRUE(record["journal_p50"].is_null());  // nothing was written since
  // A restarted server counts from 0.
  StatusReply restarted;
  Count(restarted.mutable_total()->mutable_push_latency(), 6, 3);
  EXPECT_DOUBLE_EQ(DetailRecord(restarted, before)["push_p50"].get<double>(),
                   LatencyBound(6) * 1e3);
}

TEST(DetailRecord, TellsWhereTheTimeSinceWent) {
  StatusReply before, now;
  before.mutable_total()->set_seconds_compute(10);
  before.mutable_total()->set_seconds_wire(1);
  now.mutable_total()->set_seconds_compute(13);
  now.mutable_total()->set_seconds_wire(0.5);  // the server was restarted
  now.mutable_total()->set_seconds_apply(2);
  const Record time = DetailRecord(now, before)["time"];
  EXPECT_EQ(time.size(), 6u);
  EXPECT_EQ(time["compute"], 3);
  EXPECT_EQ(time["wire"], 0.5);
  EXPECT_EQ(time["apply"], 2);
  EXPECT_EQ(time["wait"], 0);
}

TEST(DetailRecord, TellsWhatTheRunWaitsForAndWhatFailed) {
  StatusReply status;
  EXPECT_EQ(DetailRecord(status, StatusReply())["waits_for"], "");
  status.set_waits_for("waiting for server 2");
  status.set_failed_checkpoint("checkpoint 3: no space");
  const Record record = DetailRecord(status, StatusReply());
  EXPECT_EQ(record["waits_for"], "waiting for server 2");
  EXPECT_EQ(record["failed_checkpoint"], "checkpoint 3: no space");
}

TEST(DetailRecord, TellsOfServersWhereSeveralHoldTheShards) {
  StatusReply status;
  for (const uint32_t server : {1, 2, 1}) {
    ShardStatus* shard = status.add_shards();
    shard->set_shard(status.shards_size() - 1);
    shard->set_server(server);
    shard->set_bytes(100 * server);
    shard->add_in_sync(server);
    shard->add_copies(server);
  }
  status.mutable_shards(0)->add_copies(2);
  status.mutable_shards(2)->add_copies(2);
  status.mutable_shards(2)->add_in_sync(2);
  EXPECT_FALSE(DetailRecord(status, StatusReply()).contains("servers"));
  for (uint32_t server = 1; server <= 4; ++server) {
    status.add_servers()->set_server(server);
    status.mutable_servers()->rbegin()->set_connected(server < 3);
  }
  status.mutable_servers(0)->set_leads(true);
  status.mutable_servers(1)->set_leaving(true);
  status.mutable_servers(3)->set_leaving(true);
  const Record servers = DetailRecord(status, StatusReply())["servers"];
  ASSERT_EQ(servers.size(), 4u);
  EXPECT_EQ(servers[0]["leads"], true);
  EXPECT_EQ(servers[0]["shards"], Record::array({0, 2}));
  EXPECT_EQ(servers[0]["bytes"], 200);
  EXPECT_EQ(servers[1]["leads"], false);
  EXPECT_EQ(servers[1]["copies"], 1);
  EXPECT_EQ(servers[1]["catching_up"], 1);
  EXPECT_EQ(servers[1]["shards"], Record::array({1}));
  EXPECT_EQ(servers[1]["bytes"], 200);
  EXPECT_EQ(servers[2]["shards"], Record::array());
  for (const auto& [index, state] :
       {std::pair(0, "live"), {1, "leaves"}, {2, "away"}, {3, "left"}}) {
    EXPECT_EQ(servers[index]["state"], state);
  }
  // The run waits for a server that holds a shard, so its state is not "left".
  status.mutable_servers(1)->set_connected(false);
  EXPECT_EQ(DetailRecord(status, StatusReply())["servers"][1]["state"], "away");
}

TEST(DetailRecord, TellsOfWorkersShardsRefusalsAndCheckpoints) {
  StatusReply status;
  status.set_state(StatusReply::TRAINING);
  WorkerStatus* worker = status.add_workers();
  worker->mutable_key()->set_worker(3);
  worker->set_live(true);
  worker->add_pull_staleness(4);
  worker->add_pull_staleness(0);
  for (int s = 0; s < 2; ++s) {
    ShardStatus* shard = status.add_shards();
    shard->set_shard(s);
    shard->set_queue_bytes(100);
    (*shard->mutable_refused())["malformed"] = 2;
  }
  (*status.mutable_refused())["role"] = 1;
  for (int id : {1, 2}) {
    status.add_checkpoints()->set_id(id);
    status.mutable_checkpoints()->rbegin()->set_age_seconds(10.0 / id);
  }
  const Record record = DetailRecord(status, StatusReply());
  EXPECT_EQ(record["state"], "training");
  EXPECT_EQ(record["workers"][0]["id"], 3);
  EXPECT_EQ(record["workers"][0]["staleness"], Record::array({4}));
  EXPECT_EQ(record["queue_bytes"], 200);
  EXPECT_EQ(record["refused"]["malformed"], 4);
  EXPECT_EQ(record["refused"]["role"], 1);
  EXPECT_EQ(record["checkpoint_age"], 5);
}

TEST(DetailSchedule, ALongRunLeavesFew) {
  DetailSchedule schedule;
  int due = 0;
  for (int second = 0; second < 7 * 24 * 3600; ++second) due += schedule.Due(second, 4);
  EXPECT_GT(due, 300);
  EXPECT_LT(due, 1200);
}

TEST(DetailSchedule, ManyWorkersMakeRecordsRare) {
  DetailSchedule schedule;
  int due = 0;
  for (int second = 0; second < 100; ++second) due += schedule.Due(second, 1000);
  EXPECT_EQ(due, 10);
}

}  // namespace
}  // namespace psgd
