#include "experiment/record/detail_record.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "common/latency.h"
#include "common/metrics.h"
#include "proto/phases.h"
#include "proto/target_kind.h"
#include "server/control/server_shares.h"

namespace psgd {
namespace {

using Counts = google::protobuf::RepeatedField<uint64_t>;

constexpr double kOften = 1;      // seconds
constexpr double kShare = 0.01;   // of the time so far
constexpr double kOfEach = 0.01;  // seconds, for each worker and shard that the record names

// Counts since `before`. If a count fell, the server or worker restarted, and all of `now` is new.
CountHistogram Since(const Counts& before, const Counts& now) {
  CountHistogram histogram;
  bool grown = before.size() <= now.size();
  for (int i = 0; grown && i < before.size(); ++i) grown = before[i] <= now[i];
  for (int i = 0; i < now.size(); ++i) {
    histogram.Add(i, now[i] - (grown && i < before.size() ? before[i] : 0));
  }
  return histogram;
}

Record Milliseconds(const CountHistogram& latency, double share) {
  if (latency.count() == 0) return nullptr;
  return LatencyQuantile(latency, share) * 1e3;
}

void AddLatency(const std::string& name, const CountHistogram& latency, Record* record) {
  (*record)[name + "_p50"] = Milliseconds(latency, 0.5);
  (*record)[name + "_p99"] = Milliseconds(latency, 0.99);
}

// Cuts off trailing zeros.
Record Trimmed(const Counts& counts) {
  int size = counts.size();
  while (size > 0 && counts[size - 1] == 0) --size;
  return Record(std::vector<uint64_t>(counts.begin(), counts.begin() + size));
}

Record WorkerRecord(const WorkerStatus& now, const WorkerStatus& before) {
  Record record{{"id", now.key().worker()},
                {"name", now.name()},
                {"device", now.device()},
                {"live", now.live()},
                {"leaving", now.leaving()},
                {"note", now.note()},
                {"clock", now.clock()},
                {"samples_per_second", now.samples_per_second()},
                {"heard", now.seconds_since_heard()},
                {"input_stall", now.input_stall()},
                {"residual_norm", now.residual_norm()},
                {"staleness", Trimmed(now.pull_staleness())}};
  AddLatency("push", Since(before.push_latency(), now.push_latency()), &record);
  AddLatency("pull", Since(before.pull_latency(), now.pull_latency()), &record);
  return record;
}

Record ShardRecordOf(const ShardStatus& now, const ShardStatus& before) {
  Record record{{"id", now.shard()},
                {"slices", now.slices()},
                {"bytes", now.bytes()},
                {"pushes", now.pushes()},
                {"pulls", now.pulls()},
                {"duplicates", now.duplicates()},
                {"waiting_pulls", now.waiting_pulls()},
                {"queue_bytes", now.queue_bytes()},
                {"journal_bytes", now.journal_bytes()},
                {"stalled", now.stalled()},
                {"slowest_clock", now.slowest_clock()}};
  AddLatency("journal", Since(before.journal_latency(), now.journal_latency()), &record);
  return record;
}

Record ShareRecord(const ServerShare& share) {
  return {{"id", share.server.server()},
          {"name", share.server.name()},
          {"state", share.state},
          {"leads", share.server.leads()},
          {"shards", share.shards},
          {"copies", share.copies},
          {"catching_up", share.catching_up},
          {"bytes", share.bytes},
          {"heard", share.server.seconds_since_heard()}};
}

template <typename Status>
const Status& At(const google::protobuf::RepeatedPtrField<Status>& all, int index) {
  return index < all.size() ? all[index] : Status::default_instance();
}

}  // namespace

bool TellsLoss(const StatusReply& status) {
  if (status.train_loss() != 0 || status.train_accuracy() != 0) return true;
  return !status.config().model().has_client() &&
         std::ranges::any_of(status.workers(), [](const WorkerStatus& worker) {
           return worker.live() && worker.samples_per_second() > 0;
         });
}

bool TellsAccuracy(const StatusReply& status) {
  const bool of_programs = status.config().model().has_client();
  if (of_programs) return status.train_accuracy() != 0;
  return HasClasses(status.config().data()) && TellsLoss(status);
}

Record LearningRate(const StatusReply& status) {
  if (status.config().optimizer().has_worker()) return nullptr;
  return status.hyper().learning_rate();
}

Record DetailRecord(const StatusReply& status, const StatusReply& before) {
  Record record{{"state", absl::AsciiStrToLower(StatusReply::State_Name(status.state()))},
                {"detail", status.detail()},
                {"learning_rate", LearningRate(status)},
                {"weight_decay", status.hyper().weight_decay()},
                {"staleness", Trimmed(status.total().pull_staleness())}};
  AddLatency("push", Since(before.total().push_latency(), status.total().push_latency()), &record);
  AddLatency("pull", Since(before.total().pull_latency(), status.total().pull_latency()), &record);
  record["time"] = Record::object();
  const auto earlier = PhasesOf(before.total());
  const auto phases = PhasesOf(status.total());
  for (size_t i = 0; i < phases.size(); ++i) {
    const double since = phases[i].second - earlier[i].second;
    record["time"][phases[i].first] = since >= 0 ? since : phases[i].second;  // counts restarted
  }
  CountHistogram journal;
  std::map<std::string, uint64_t> refused(status.refused().begin(), status.refused().end());
  uint64_t queue = 0;
  for (int s = 0; s < status.shards_size(); ++s) {
    const ShardStatus& shard = status.shards(s);
    journal.Merge(Since(At(before.shards(), s).journal_latency(), shard.journal_latency()));
    queue += shard.queue_bytes();
    for (const auto& [reason, count] : shard.refused()) refused[reason] += count;
  }
  AddLatency("journal", journal, &record);
  record["queue_bytes"] = queue;
  record["refused"] = refused;
  record["checkpoint"] = nullptr;
  record["checkpoint_age"] = nullptr;
  for (const CheckpointInfo& taken : status.checkpoints()) {
    const bool newer = record["checkpoint"].is_null() || taken.id() > record["checkpoint"];
    if (!newer) continue;
    record["checkpoint"] = taken.id();
    record["checkpoint_age"] = taken.age_seconds();
  }
  record["waits_for"] = status.waits_for();
  record["failed_checkpoint"] = status.failed_checkpoint();
  for (const ServerShare& share : SharesOf(status)) record["servers"].push_back(ShareRecord(share));
  record["workers"] = Record::array();
  for (int w = 0; w < status.workers_size(); ++w) {
    record["workers"].push_back(WorkerRecord(status.workers(w), At(before.workers(), w)));
  }
  record["shards"] = Record::array();
  for (int s = 0; s < status.shards_size(); ++s) {
    record["shards"].push_back(ShardRecordOf(status.shards(s), At(before.shards(), s)));
  }
  return record;
}

bool DetailSchedule::Due(double seconds, int parts) {
  if (seconds < next_) return false;
  next_ = seconds + std::max({kOften, kShare * seconds, kOfEach * parts});
  return true;
}

}  // namespace psgd
