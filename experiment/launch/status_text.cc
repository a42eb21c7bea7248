#include "experiment/launch/status_text.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/first_measure.h"
#include "common/metrics.h"
#include "common/units.h"
#include "experiment/launch/checkpoint_report.h"
#include "experiment/launch/codec_choices_text.h"
#include "experiment/record/detail_record.h"
#include "experiment/record/evaluation_record.h"
#include "experiment/record/readable.h"
#include "experiment/record/records.h"
#include "proto/phases.h"
#include "proto/trained.h"
#include "server/control/server_shares.h"

namespace psgd {
namespace {

// Without a report the figures are unknown, and 0 would be wrong.
bool HasReported(const WorkerStatus& worker) { return worker.samples_per_second() > 0; }
bool AnyoneReports(const StatusReply& status) {
  return std::any_of(
      status.workers().begin(), status.workers().end(),
      [](const WorkerStatus& worker) { return worker.live() && HasReported(worker); });
}

std::string Head(const StatusReply& status) {
  std::string text = absl::StrFormat("%s: %s, epoch %.2f/%d, clock %d", status.name(),
                                     absl::AsciiStrToLower(StatusReply::State_Name(status.state())),
                                     status.epoch(), status.epochs(), status.clock());
  if (!status.detail().empty()) absl::StrAppend(&text, " (", status.detail(), ")");
  if (!status.stopped_early().empty()) {
    absl::StrAppend(&text, "\n  stops early: ", status.stopped_early());
  }
  if (!status.waits_for().empty()) absl::StrAppend(&text, "\n  ", status.waits_for());
  if (!status.failed_checkpoint().empty()) {
    absl::StrAppend(&text,
                    "\n  the last checkpoint could not be written: ", status.failed_checkpoint());
  }
  const WorkerReport total = Trained(status.total());
  absl::StrAppend(&text, "\n  ");
  if (AnyoneReports(status)) {
    if (TellsLoss(status)) absl::StrAppend(&text, "loss ", ReadableLoss(status.train_loss()), ", ");
    if (TellsAccuracy(status)) {
      absl::StrAppend(&text, "train accuracy ", ReadablePercent(status.train_accuracy()), ", ");
    }
    absl::StrAppend(&text, ReadableCount(status.samples_per_second()), " samples/s, ");
  }
  absl::StrAppend(&text, "trained for ", ReadableTime(status.seconds()), "\n");
  const double pushed = static_cast<double>(total.bytes_pushed());
  const double dense = static_cast<double>(total.bytes_pushed_dense());
  const CountHistogram staleness = CountHistogram::FromCounts(total.pull_staleness());
  if (total.steps() > 0) {
    absl::StrAppendFormat(&text, "  pushed %s of %s%s, staleness mean %.2f max %d\n",
                          HumanBytes(pushed), HumanBytes(dense),
                          pushed > 0 ? absl::StrCat(" (", ReadableRatio(dense, pushed), ")") : "",
                          staleness.Mean(), staleness.max());
    absl::StrAppendFormat(&text, "  workers waited for data %.1f %% of their time\n",
                          100 * InputStall(total));
  }
  if (total.residual_norm() > 0 || total.residual_norm_lost() > 0) {
    absl::StrAppendFormat(&text, "  residual of norm %.4g with the workers, of norm %.4g lost\n",
                          total.residual_norm(), total.residual_norm_lost());
  }
  if (total.counts_incomplete()) {
    text +=
        "  a server died, or a worker before a resume: steps, bytes and times may lack the last "
        "second before that, and are lower bounds\n";
  }
  if (status.batches_repeated() > 0 || status.batches_lost() > 0) {
    absl::StrAppendFormat(&text,
                          "  of workers that left or died, batches: %d dealt again, %d left out\n",
                          status.batches_repeated(), status.batches_lost());
  }
  // Otherwise the workers' programs have them.
  if (!status.config().optimizer().has_worker()) {
    absl::StrAppendFormat(
        &text, "  learning rate %g before schedule, weight decay %g (version %d)\n",
        status.hyper().learning_rate(), status.hyper().weight_decay(), status.hyper().version());
  }
  absl::StrAppend(&text, "  run directory ", status.run_dir(), "\n");
  return text;
}

std::string ShareText(uint64_t bytes, uint64_t of) {
  if (of == 0) return "-";
  return absl::StrFormat("%.1f %%", 100 * static_cast<double>(bytes) / static_cast<double>(of));
}

std::string Shards(const StatusReply& status) {
  TextTable table(
      {"shard", "slices", "weights", "share", "pushes", "pulls", "refused", "endpoint"});
  uint64_t total = 0, largest = 0;
  for (const ShardStatus& shard : status.shards()) {
    total += shard.bytes();
    largest = std::max(largest, shard.bytes());
  }
  for (const ShardStatus& shard : status.shards()) {
    uint64_t refused = 0;
    for (const auto& [reason, count] : shard.refused()) refused += count;
    table.Add({absl::StrCat(shard.shard()), absl::StrCat(shard.slices()),
               HumanBytes(static_cast<double>(shard.bytes())), ShareText(shard.bytes(), total),
               absl::StrCat(shard.pushes()), absl::StrCat(shard.pulls()), absl::StrCat(refused),
               shard.endpoint().substr(0, shard.endpoint().find(' '))});
  }
  if (table.empty()) return "";
  std::string text = absl::StrCat("\nshards\n", table.Text());
  if (total > 0) {
    absl::StrAppendFormat(
        &text, "  balance: the largest holds %.2f of the mean\n",
        static_cast<double>(largest) * status.shards_size() / static_cast<double>(total));
  }
  for (const ShardStatus& shard : status.shards()) {
    if (shard.stalled().empty()) continue;
    absl::StrAppend(&text, "  shard ", shard.shard(),
                    " waits, since its journal cannot be written: ", shard.stalled(), "\n");
  }
  return text;
}

std::string Servers(const StatusReply& status) {
  TextTable table(
      {"server", "name", "beside", "link", "state", "shards", "bytes", "share", "copies", "heard"});
  const std::vector<ServerShare> shares = SharesOf(status);
  uint64_t total = 0;
  for (const ServerShare& share : shares) total += share.bytes;
  for (const ServerShare& share : shares) {
    const std::string copies =
        share.catching_up == 0
            ? absl::StrCat(share.copies)
            : absl::StrCat(share.copies, " and ", share.catching_up, " catching up");
    table.Add({absl::StrCat(share.server.server(), share.server.leads() ? " (leads)" : ""),
               share.server.name(), share.server.beside_worker() ? "a worker" : "-",
               share.server.link() > 0 ? FormatRate(share.server.link()) : "-", share.state,
               absl::StrCat(share.shards.size()), HumanBytes(static_cast<double>(share.bytes)),
               ShareText(share.bytes, total), copies,
               absl::StrCat(ReadableTime(share.server.seconds_since_heard()), " ago")});
  }
  return table.empty() ? "" : absl::StrCat("\nservers\n", table.Text());
}

std::string Workers(const StatusReply& status) {
  TextTable table(
      {"worker", "name", "device", "state", "clock", "samples/s", "input stall", "heard"});
  for (const WorkerStatus& worker : status.workers()) {
    const bool trains = worker.live() && HasReported(worker);
    table.Add({absl::StrCat(worker.key().worker()), worker.name(), worker.device(),
               worker.live() ? "live" : "out", absl::StrCat(worker.clock()),
               trains ? ReadableCount(worker.samples_per_second()) : "-",
               trains ? absl::StrFormat("%.1f %%", 100 * worker.input_stall()) : "-",
               worker.live() ? absl::StrCat(ReadableTime(worker.seconds_since_heard()), " ago")
                             : worker.note()});
  }
  if (table.empty()) return "";
  std::string text = absl::StrCat("\nworkers\n", table.Text());
  for (const WorkerStatus& worker : status.workers()) {
    if (!worker.live() || worker.detour().empty()) continue;
    absl::StrAppend(&text, "  worker ", worker.key().worker(), ": ", worker.detour(), "\n");
  }
  return text;
}

std::string Checkpoints(const StatusReply& status) {
  const TextTable table =
      CheckpointTable({status.checkpoints().begin(), status.checkpoints().end()});
  return table.empty() ? "" : absl::StrCat("\ncheckpoints\n", table.Text());
}

std::string Notes(const StatusReply& status) {
  std::string text;
  for (const std::string& note : status.total().notes())
    absl::StrAppend(&text, "\nnote: ", note, "\n");
  return text;
}

std::string LocalTime(int64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local));
}

}  // namespace

std::string StatusText(const StatusReply& status) {
  return absl::StrCat(Head(status), Servers(status), Shards(status), Workers(status),
                      EvaluationsText({status.evaluations().begin(), status.evaluations().end()}),
                      Checkpoints(status), CodecChoicesText(status.choices()), Notes(status));
}

std::string StatusJson(const StatusReply& status) {
  Record record = Record::parse(MessageJson(status));
  if (!AnyoneReports(status)) {
    record["samples_per_second"] = nullptr;
  }
  if (!TellsLoss(status)) record["train_loss"] = nullptr;
  if (!TellsAccuracy(status)) record["train_accuracy"] = nullptr;
  for (int w = 0; w < status.workers_size(); ++w) {
    if (HasReported(status.workers(w))) continue;
    for (const char* key : {"samples_per_second", "input_stall"})
      record["workers"][w][key] = nullptr;
  }
  return record.dump(1) + "\n";
}

std::string MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return text;
}

std::string EvaluationsText(const std::vector<EvalResult>& evaluations) {
  const bool accuracy = std::ranges::any_of(evaluations, &EvalResult::has_accuracy);
  std::vector<std::string> header = {"epoch"};
  if (accuracy) header.emplace_back("test accuracy");
  header.insert(header.end(), {"test loss", "samples"});
  if (!evaluations.empty()) {
    for (const auto& [name, value] : MeasuresOf(evaluations.front())) header.push_back(name);
  }
  TextTable table(header);
  for (const EvalResult& result : evaluations) {
    std::vector<std::string> row = {ReadableEpoch(result.epoch())};
    if (accuracy) row.push_back(result.has_accuracy() ? ReadablePercent(result.accuracy()) : "-");
    row.push_back(ReadableLoss(result.loss()));
    row.push_back(absl::StrCat(result.samples()));
    for (const auto& [name, value] : MeasuresOf(result)) row.push_back(ReadableMeasure(value));
    row.resize(header.size());
    table.Add(std::move(row));
  }
  return table.empty() ? "" : absl::StrCat("\nevaluations\n", table.Text());
}

std::string CheckpointsText(const std::vector<CheckpointManifest>& manifests) {
  TextTable table({"checkpoint", "name", "epoch", "clock", "size", "taken"});
  const std::vector<CheckpointInfo> infos = InfosOf(manifests);
  for (size_t i = 0; i < infos.size(); ++i) {
    table.Add({absl::StrCat(infos[i].id()), NamesOf(infos[i]),
               absl::StrFormat("%.2f", infos[i].epoch()), absl::StrCat(infos[i].clock()),
               HumanBytes(static_cast<double>(infos[i].bytes())),
               LocalTime(manifests[i].unix_seconds())});
  }
  return table.empty() ? "" : absl::StrCat("\ncheckpoints\n", table.Text());
}

}  // namespace psgd
