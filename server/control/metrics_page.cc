#include "server/control/metrics_page.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/metrics.h"
#include "proto/data.pb.h"
#include "proto/phases.h"
#include "proto/target_kind.h"
#include "server/control/server_shares.h"

namespace psgd {
namespace {

// Unseen reasons are present as 0. Otherwise the first refusal of a reason would not show as an
// increase.
std::map<std::string, uint64_t> WithAllReasons(
    const google::protobuf::Map<std::string, uint64_t>& refused) {
  std::map<std::string, uint64_t> all(refused.begin(), refused.end());
  const google::protobuf::EnumDescriptor* reasons = Refusal::Reason_descriptor();
  for (int i = 1; i < reasons->value_count(); ++i) {  // 0 is no reason
    all.try_emplace(absl::AsciiStrToLower(reasons->value(i)->name()), 0);
  }
  return all;
}

void RenderShard(const ShardStatus& s, PrometheusText* text) {
  const std::string label = absl::StrCat("shard=\"", s.shard(), "\"");
  text->Counter("psgd_pushes_total", "Pushes absorbed.", label, s.pushes());
  text->Counter("psgd_pulls_total", "Pulls answered.", label, s.pulls());
  text->Counter("psgd_duplicates_total", "Repeated pushes, acknowledged and not applied again.",
                label, s.duplicates());
  for (const auto& [reason, count] : WithAllReasons(s.refused())) {
    text->Counter("psgd_refused_total", "Messages refused, by reason.",
                  absl::StrCat(label, ",reason=\"", PrometheusLabel(reason), "\""), count);
  }
  text->Gauge("psgd_shard_bytes", "Weights that the shard holds.", label, s.bytes());
  text->Gauge("psgd_waiting_pulls", "Pulls held back by the staleness bound.", label,
              s.waiting_pulls());
  text->Gauge("psgd_journal_bytes", "Journal since the shard's last image.", label,
              s.journal_bytes());
  text->Gauge("psgd_journal_stalled", "1: the shard waits, since its journal cannot be written.",
              label, s.stalled().empty() ? 0 : 1);
  text->LatencyHistogram("psgd_journal_seconds",
                         "Writing steps down, until they survive what was asked.", label,
                         CountHistogram::FromCounts(s.journal_latency()));
  text->Gauge("psgd_queue_bytes",
              "Messages that the shard holds: pushes that wait, replies to slow readers.", label,
              s.queue_bytes());
  text->Gauge("psgd_slowest_clock", "Steps of the slowest live worker.", label, s.slowest_clock());
}

void RenderWorker(const WorkerStatus& w, PrometheusText* text) {
  const std::string label =
      absl::StrCat("worker=\"", w.key().worker(), "\",name=\"", PrometheusLabel(w.name()), "\"");
  text->Gauge("psgd_worker_live", "1 while the worker holds its lease.", label, w.live());
  text->Gauge("psgd_worker_clock", "Steps the worker has finished.", label, w.clock());
  text->Gauge("psgd_worker_samples_per_second", "Training speed.", label, w.samples_per_second());
  text->Gauge("psgd_worker_heard_seconds", "Since the worker was heard of.", label,
              w.seconds_since_heard());
  text->LatencyHistogram("psgd_push_seconds",
                         "From a push leaving the worker to its acknowledgement.", label,
                         CountHistogram::FromCounts(w.push_latency()));
  text->LatencyHistogram("psgd_pull_seconds", "From a pull to the last of a shard's answers.",
                         label, CountHistogram::FromCounts(w.pull_latency()));
  text->Gauge("psgd_worker_input_stall",
              "Share of the worker's time spent waiting for data, last report.", label,
              w.input_stall());
  text->Gauge("psgd_worker_residual_norm", "Of what the worker's codecs left behind, last report.",
              label, w.residual_norm());
}

void RenderServer(const ServerShare& s, PrometheusText* text) {
  const std::string label = absl::StrCat("server=\"", s.server.server(), "\",name=\"",
                                         PrometheusLabel(s.server.name()), "\"");
  text->Gauge("psgd_server_live", "1: the server is connected to the one that leads the run.",
              label, s.server.connected());
  text->Gauge("psgd_server_leads", "1: the server leads the run.", label, s.server.leads());
  text->Gauge("psgd_server_copies", "Copies on the server that are in sync and follow.", label,
              s.copies);
  text->Gauge("psgd_server_catching_up", "Copies on the server that are not in sync yet.", label,
              s.catching_up);
  text->Gauge("psgd_server_leaving", "1: its shards go to others, and then it ends.", label,
              s.server.leaving());
  text->Gauge("psgd_server_shards", "Shards that the server leads.", label, s.shards.size());
  text->Gauge("psgd_server_bytes", "Weights of the shards that the server leads.", label, s.bytes);
  text->Gauge("psgd_server_heard_seconds", "Since the server was heard of.", label,
              s.server.seconds_since_heard());
  for (const uint32_t shard : s.shards) {
    text->Gauge("psgd_shard_server",
                "Number of the server that leads the shard: changes as it moves.",
                absl::StrCat("shard=\"", shard, "\""), s.server.server());
  }
}

// Measures may have the names of targets, which are any text.
std::string MetricWord(std::string name) {
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

}  // namespace

std::string RenderPrometheus(const StatusReply& status) {
  const std::vector<uint64_t> bounds = {0, 1, 2, 4, 8, 16, 32, 64, 128};
  const WorkerReport& total = status.total();
  PrometheusText text;
  text.Gauge("psgd_epoch", "Training done by all workers together, in epochs.", "", status.epoch());
  // Programs need not tell the loss of their steps.
  if (status.train_loss() != 0 || status.train_accuracy() != 0) {
    text.Gauge("psgd_train_loss", "Mean training loss of the last reports.", "",
               status.train_loss());
    if (HasClasses(status.config().data())) {
      text.Gauge("psgd_train_accuracy", "Training accuracy of the last reports.", "",
                 status.train_accuracy());
    }
  }
  if (!status.evaluations().empty()) {
    const EvalResult& last = *status.evaluations().rbegin();
    if (last.has_accuracy())
      text.Gauge("psgd_test_accuracy", "Accuracy of the last evaluation.", "", last.accuracy());
    text.Gauge("psgd_test_loss", "Loss of the last evaluation.", "", last.loss());
    for (const auto& [name, value] : last.measures()) {
      text.Gauge("psgd_test_" + MetricWord(name), "Of the last evaluation.", "", value);
    }
  }
  text.Gauge("psgd_samples_per_second", "Training speed of all workers.", "",
             status.samples_per_second());
  text.Gauge("psgd_learning_rate", "Before the schedule.", "", status.hyper().learning_rate());
  if (!status.checkpoints().empty()) {
    double age = status.checkpoints(0).age_seconds();
    for (const CheckpointInfo& taken : status.checkpoints())
      age = std::min(age, taken.age_seconds());
    text.Gauge("psgd_checkpoint_age_seconds", "Since this server last took a checkpoint.", "", age);
  }
  text.Gauge("psgd_checkpoint_failed", "1: the last checkpoint could not be written.", "",
             status.failed_checkpoint().empty() ? 0 : 1);
  text.Gauge("psgd_waits", "1: the run waits for a server, a disk, the run store or a late worker.",
             "", status.waits_for().empty() ? 0 : 1);
  text.Counter("psgd_steps_total", "Steps of all workers.", "", total.steps());
  text.Counter("psgd_samples_total", "Samples trained on.", "", total.samples());
  text.Counter("psgd_pushed_bytes_total", "Sent by workers, headers included.", "",
               total.bytes_pushed());
  text.Counter("psgd_pulled_bytes_total", "Received by workers, headers included.", "",
               total.bytes_pulled());
  text.Counter("psgd_pushed_dense_bytes_total", "What pushes would have been as fp32.", "",
               total.bytes_pushed_dense());
  text.Counter("psgd_pulled_dense_bytes_total", "What pulls would have been as fp32.", "",
               total.bytes_pulled_dense());
  text.Counter("psgd_resent_total", "Messages that workers sent again.", "", total.resent());
  for (const auto& [phase, seconds] : PhasesOf(total)) {
    text.Counter("psgd_worker_seconds_total", "Time of all workers, by what it went into.",
                 absl::StrCat("phase=\"", phase, "\""), seconds);
  }
  text.Gauge("psgd_input_stall", "Share of the workers' time spent waiting for data.", "",
             InputStall(total));
  text.Gauge("psgd_residual_norm", "Of what the codecs of all workers left behind, last reports.",
             "", total.residual_norm());
  text.Gauge("psgd_residual_norm_lost", "Of what ended with workers before they could push it.", "",
             total.residual_norm_lost());
  text.Counter("psgd_batches_repeated_total", "Batches of workers that were lost, dealt again.", "",
               status.batches_repeated());
  text.Counter("psgd_batches_lost_total",
               "Batches of workers that were lost when their epoch was over: not dealt again.", "",
               status.batches_lost());
  text.Histogram("psgd_pull_staleness", "Clocks that a pulling worker led the slowest by.", "",
                 CountHistogram::FromCounts(total.pull_staleness()), bounds);
  for (const ShardStatus& shard : status.shards()) {
    text.Histogram("psgd_push_staleness", "Versions that a slice gained between pull and push.",
                   absl::StrCat("shard=\"", shard.shard(), "\""),
                   CountHistogram::FromCounts(shard.push_staleness()), bounds);
  }
  for (const auto& [reason, count] : status.refused()) {
    text.Counter("psgd_calls_refused_total", "Calls of the control plane refused, by reason.",
                 absl::StrCat("reason=\"", PrometheusLabel(reason), "\""), count);
  }
  for (const ShardStatus& shard : status.shards()) RenderShard(shard, &text);
  for (const WorkerStatus& worker : status.workers()) RenderWorker(worker, &text);
  for (const ServerShare& server : SharesOf(status)) RenderServer(server, &text);
  return text.Text();
}

}  // namespace psgd
