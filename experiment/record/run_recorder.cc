#include "experiment/record/run_recorder.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/clock.h"
#include "common/cpu_time.h"
#include "common/metrics.h"
#include "compression/policy.h"
#include "experiment/record/codec_choices_record.h"
#include "experiment/record/evaluation_record.h"
#include "experiment/record/weights_collector.h"
#include "optimizers/diverged.h"
#include "proto/phases.h"
#include "proto/trained.h"
#include "server/control/server_shares.h"
#include "server/durability/checkpoint_store.h"

namespace psgd {
namespace {

// The full histograms of staleness; the summary has only their statistics.
Record StalenessCounts(const StatusReply& status) {
  CountHistogram versions;
  for (const ShardStatus& shard : status.shards()) {
    versions.Merge(CountHistogram::FromCounts(shard.push_staleness()));
  }
  const auto& pulls = status.total().pull_staleness();
  return {{"pulls", std::vector<uint64_t>(pulls.begin(), pulls.end())},
          {"pushes", versions.counts()}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::Open(const RunDir& dir,
                                                               const std::string& config, Log log,
                                                               Observer observer) {
  PSGD_ASSIGN_OR_RETURN(auto metrics, MetricsWriter::Open(dir.MetricsFile()));
  PSGD_ASSIGN_OR_RETURN(auto events, EventFile::Create(dir.path()));
  std::unique_ptr<RunRecorder> recorder(new RunRecorder(dir, std::move(metrics), std::move(events),
                                                        std::move(log), std::move(observer)));
  const std::string indented =
      absl::StrCat("    ", absl::StrReplaceAll(config, {{"\n", "\n    "}}));
  recorder->ToEvents([&](EventFile& file) { return file.Text(0, "config", indented); });
  return recorder;
}

RunRecorder::RunRecorder(const RunDir& dir, std::unique_ptr<MetricsWriter> metrics,
                         std::unique_ptr<EventFile> events, Log log, Observer observer)
    : dir_(dir),
      metrics_(std::move(metrics)),
      events_(std::move(events)),
      log_(std::move(log)),
      observer_(std::move(observer)),
      start_(SteadyNow()),
      cpu_before_(ProcessCpuSeconds()) {}

absl::StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::GoOn(const RunDir& dir,
                                                               const std::string& config, Log log,
                                                               Observer observer) {
  const double seconds = LastSeconds(dir.MetricsFile());
  PSGD_ASSIGN_OR_RETURN(auto recorder, Open(dir, config, std::move(log), std::move(observer)));
  recorder->seconds_before_ = seconds;
  if (const double before = TotalSeconds(dir.MetricsFile()) - seconds; before > 0)
    recorder->seconds_of_parts_ = before;
  return recorder;
}

void RunRecorder::Resumed(uint64_t checkpoint, double epoch) {
  seconds_of_parts_ = TotalSeconds(dir_.MetricsFile());
  std::lock_guard lock(resumed_mutex_);
  resumed_ = {{"checkpoint", checkpoint}, {"epoch", epoch}};
}

void RunRecorder::WriteResumed() {
  std::lock_guard lock(resumed_mutex_);
  if (!resumed_.is_null()) Write("resumed", resumed_);
  resumed_ = nullptr;
}

void RunRecorder::BeginsAt(const StatusReply& status, uint64_t samples_before) {
  samples_before_ = samples_before;
  recorded_samples_ = status.total().samples();
  recorded_seconds_ = status.seconds();
  seconds_before_ =
      std::max(seconds_before_.load(), status.seconds() - Seconds(SteadyNow() - start_));
}

double RunRecorder::Elapsed() const { return seconds_before_ + Seconds(SteadyNow() - start_); }

void RunRecorder::Write(absl::string_view kind, const Record& record) {
  const double now = Elapsed();
  const absl::Status status = metrics_->Write(kind, now, record);
  if (!status.ok()) log_->error("{}", std::string(status.message()));
  Tell(kind, now, record);
}

void RunRecorder::Tell(absl::string_view kind, double seconds, const Record& record) {
  if (!observer_) return;
  Record told{{"kind", std::string(kind)}, {"seconds", seconds}};
  told.update(record);
  observer_(told);
}

void RunRecorder::ToEvents(const std::function<absl::Status(EventFile&)>& write) {
  std::lock_guard lock(events_mutex_);
  if (events_ == nullptr) return;
  const absl::Status status = write(*events_);
  if (status.ok()) return;
  log_->error("{}; this run writes no more for TensorBoard", std::string(status.message()));
  events_.reset();
}

// The speed that the workers report. At the end no worker reports, so the speed is computed from
// the samples since the last record.
double RunRecorder::SpeedOf(const StatusReply& status, bool last) {
  const uint64_t samples = status.total().samples();
  const double seconds = status.seconds() - recorded_seconds_;
  double speed = status.samples_per_second();
  if (last && speed == 0 && seconds > 0 && samples > recorded_samples_) {
    speed = static_cast<double>(samples - recorded_samples_) / seconds;
  }
  recorded_samples_ = samples;
  recorded_seconds_ = status.seconds();
  return speed;
}

void RunRecorder::WriteScalars(const StatusReply& status, double speed) {
  const WorkerReport& total = status.total();
  if (total.steps() == 0) return;
  const auto megabytes = [](uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::vector<std::pair<std::string, double>> values = {
      {"train/epoch", status.epoch()},
      {"speed/samples_per_second", speed},
      {"speed/input_stall", InputStall(total)},
      {"traffic/pushed_MB", megabytes(total.bytes_pushed())},
      {"traffic/pulled_MB", megabytes(total.bytes_pulled())},
      {"traffic/pushed_fp32_MB", megabytes(total.bytes_pushed_dense())},
      {"staleness/mean", CountHistogram::FromCounts(total.pull_staleness()).Mean()},
      {"residual/norm", total.residual_norm()}};
  if (TellsLoss(status)) values.emplace_back("train/loss", status.train_loss());
  if (TellsAccuracy(status)) values.emplace_back("train/accuracy", status.train_accuracy());
  if (const Record rate = LearningRate(status); rate.is_number())
    values.emplace_back("train/learning_rate", rate.get<double>());
  ToEvents([&](EventFile& file) { return file.Scalars(status.clock(), values); });
}

void RunRecorder::WriteDetail(const StatusReply& status, bool last) {
  const double now = Elapsed();
  if (details_.Due(now, status.workers_size() + status.shards_size()) || last) {
    ToEvents([&](EventFile& file) {
      return file.Histogram(status.clock(), "staleness/pulls",
                            CountHistogram::FromCounts(status.total().pull_staleness()));
    });
    const absl::Status written = metrics_->Write("detail", now, DetailRecord(status, detailed_));
    if (!written.ok()) log_->error("{}", std::string(written.message()));
    detailed_ = status;
  }
  if (!observer_) return;
  Tell("detail", now, DetailRecord(status, observed_));
  observed_ = status;
}

void RunRecorder::Evaluation(const EvalResult& result) {
  WriteResumed();
  Write("evaluation", EvaluationRecord(result));
  ToEvents([&](EventFile& file) {
    std::vector<std::pair<std::string, double>> values = {{"test/loss", result.loss()}};
    if (result.has_accuracy()) values.emplace_back("test/accuracy", result.accuracy());
    for (const auto& [name, value] : result.measures()) values.emplace_back("test/" + name, value);
    return file.Scalars(result.clock(), values);
  });
}

void RunRecorder::Checkpoint(const CheckpointInfo& info) {
  WriteResumed();
  Write("checkpoint", {{"id", info.id()},
                       {"epoch", info.epoch()},
                       {"clock", info.clock()},
                       {"bytes", info.bytes()}});
}

void RunRecorder::Choices(const CodecChoices& choices) {
  Write("codecs", CodecChoicesRecord(choices));
}

void RunRecorder::News(const std::string& text) { Write("event", {{"text", text}}); }

void RunRecorder::Progress(const StatusReply& status, bool last) {
  const WorkerReport& total = status.total();
  if (total.samples() > samples_before_) WriteResumed();
  const double speed = SpeedOf(status, last);
  const CountHistogram staleness = CountHistogram::FromCounts(total.pull_staleness());
  int live = 0;
  for (const WorkerStatus& worker : status.workers()) live += worker.live();
  Write("progress",
        {{"epoch", status.epoch()},
         {"epochs", status.epochs()},
         {"clock", status.clock()},
         {"steps", total.steps()},
         {"samples", total.samples()},
         {"loss", TellsLoss(status) ? Record(status.train_loss()) : Record()},
         {"accuracy", TellsAccuracy(status) ? Record(status.train_accuracy()) : Record()},
         {"samples_per_second", speed},
         {"workers", live},
         {"bytes_pushed", total.bytes_pushed()},
         {"bytes_pulled", total.bytes_pulled()},
         {"bytes_pushed_dense", total.bytes_pushed_dense()},
         {"bytes_pulled_dense", total.bytes_pulled_dense()},
         {"staleness_mean", staleness.Mean()},
         {"staleness_max", staleness.max()},
         {"residual_norm", total.residual_norm()},
         {"residual_norm_lost", total.residual_norm_lost()},
         {"batches_repeated", status.batches_repeated()},
         {"batches_lost", status.batches_lost()},
         {"seconds_data", total.seconds_data()},
         {"seconds_compute", total.seconds_compute()},
         {"seconds_encode", total.seconds_encode()},
         {"seconds_wait", total.seconds_wait()},
         {"seconds_wire", total.seconds_wire()},
         {"seconds_apply", total.seconds_apply()},
         {"seconds_cpu", total.seconds_cpu()},
         {"seconds_cpu_server", ProcessCpuSeconds() - cpu_before_},
         {"input_stall", InputStall(total)},
         {"learning_rate", LearningRate(status)}});
  WriteScalars(status, speed);
  WriteDetail(status, last);
}

absl::Status RunRecorder::SaveWeights(const ReadWeights& read) {
  WeightsCollector collector;
  PSGD_RETURN_IF_ERROR(read([&](const WeightsChunk& chunk) { return collector.Add(chunk); }));
  return collector.Write(dir_.WeightsFile());
}

absl::Status RunRecorder::SaveSummary(const StatusReply& status, Summary::Status outcome,
                                      const std::string& error) {
  Summary summary =
      SummaryOf(status, outcome, error, Elapsed(), samples_before_, seconds_of_parts_);
  summary.best_checkpoint = CheckpointStore(dir_.ServerDir()).KeptBest().value_or(std::nullopt);
  PSGD_RETURN_IF_ERROR(WriteSummary(summary, dir_.SummaryFile()));
  Write("staleness", StalenessCounts(status));
  return absl::OkStatus();
}

namespace {

// A loss that grew by this factor since the first step is no result. Losses of sound runs may rise
// somewhat, as those of regressions do on new data. A first loss below 1 counts as 1, because one
// batch of a trained network may have a loss near 0.
constexpr double kExploded = 1000;

// Empty: the loss did not explode.
std::string ExplosionNote(const StatusReply& status) {
  const double first = status.total().first_loss();
  const double test = status.evaluations().empty() ? 0 : status.evaluations().rbegin()->loss();
  const bool tested = test != 0;  // a program may report an accuracy alone
  const double last = tested ? test : status.train_loss();
  if (!(first > 0) || !(last > kExploded * std::max(first, 1.0))) return "";
  return absl::StrFormat(
      "the last %s loss, %.4g, is %.2g times the loss of the first step, %.4g; %s",
      tested ? "test" : "training", last, last / first, first, DivergedText(status.config()));
}

}  // namespace

Summary SummaryOf(const StatusReply& status, Summary::Status outcome, const std::string& error,
                  double wall_seconds, uint64_t samples_before,
                  std::optional<double> seconds_before) {
  const Config& config = status.config();
  const WorkerReport total = Trained(status.total());
  Summary summary;
  summary.name = status.name();
  summary.status = outcome;
  summary.error = error;
  summary.stopped_early = status.stopped_early();
  std::vector<std::string> notes{total.notes().begin(), total.notes().end()};
  if (outcome != Summary::Status::kFailed) notes.insert(notes.begin(), ExplosionNote(status));
  std::erase(notes, "");
  summary.note = absl::StrJoin(notes, "; ");
  if (!status.evaluations().empty()) {
    const EvalResult& last = *status.evaluations().rbegin();
    if (last.has_accuracy()) summary.test_accuracy = last.accuracy();
    summary.test_loss = last.loss();
    summary.test_measures = MeasuresOf(last);
  }
  summary.epochs = total.epoch();
  summary.steps = total.steps();
  summary.counts_incomplete = total.counts_incomplete();
  summary.wall_seconds = wall_seconds + seconds_before.value_or(0);
  if (seconds_before) summary.seconds_since_resume = wall_seconds;
  summary.train_seconds = status.seconds();
  if (status.seconds() > 0 && status.total().samples() > samples_before) {
    summary.samples_per_second =
        static_cast<double>(status.total().samples() - samples_before) / status.seconds();
  }
  for (const auto& [phase, seconds] : PhasesOf(total)) summary.phase_seconds[phase] = seconds;
  summary.input_stall = InputStall(total);
  summary.residual_norm_lost = total.residual_norm_lost();
  summary.batches_repeated = status.batches_repeated();
  summary.batches_lost = status.batches_lost();
  summary.bytes_pushed = total.bytes_pushed();
  summary.bytes_pulled = total.bytes_pulled();
  summary.bytes_pushed_dense = total.bytes_pushed_dense();
  summary.bytes_pulled_dense = total.bytes_pulled_dense();
  summary.staleness = StalenessSummary::Of(CountHistogram::FromCounts(total.pull_staleness()));
  CountHistogram versions;
  for (const ShardStatus& shard : status.shards()) {
    versions.Merge(CountHistogram::FromCounts(shard.push_staleness()));
    for (const auto& [reason, count] : shard.refused()) summary.rejected[reason] += count;
  }
  summary.push_staleness = StalenessSummary::Of(versions);
  summary.workers = config.cluster().workers();
  summary.shards = config.cluster().shards();
  summary.servers = ServersThatHold(status);
  if (!status.failed_checkpoint().empty()) summary.failed_checkpoint = status.failed_checkpoint();
  summary.transport =
      absl::AsciiStrToLower(ClusterConfig::Transport_Name(config.cluster().transport()));
  summary.codec = PushCodecName(config.compression());
  summary.codec_carries = status.codec_carries();
  summary.codecs = ChosenCodecs(status.choices());
  summary.seed = config.seed();
  return summary;
}

}  // namespace psgd
