#include "simulate/modelled_worker.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/local_steps.h"
#include "simulate/modelled_cluster.h"

namespace psgd::sim {
namespace {
constexpr double kControlCall = 300e-6;  // of both processes, for a call of the control plane

// With mean 1 and that standard deviation. Log-normal: what takes long is more frequent than what
// takes no time.
double Around1(double spread, Chance* chance) {
  const double sigma = std::sqrt(std::log1p(spread * spread));
  const double radius = std::sqrt(-2 * std::log(1 - chance->Unit()));
  const double normal = radius * std::cos(2 * std::numbers::pi * chance->Unit());
  return std::exp(sigma * normal - sigma * sigma / 2);
}
}  // namespace

ModelledWorker::ModelledWorker(ModelledCluster* cluster, uint32_t process)
    : cluster_(cluster),
      process_(process),
      chance_(cluster->seed(), 100 + process),
      pace_(cluster->model().worker().pace() > 0
                ? Around1(cluster->model().worker().pace(), &chance_)
                : 1) {}

void ModelledWorker::Start() {
  to_shards_ = cluster_->ConnectToShards(process_);
  Spend(cluster_->model().worker().start(), 1, [this] { Join(); });
}

void ModelledWorker::Die() { dead_ = true; }

void ModelledWorker::GiveUp(const absl::Status& status) {
  cluster_->GaveUp(Annotate(status, absl::StrCat("worker ", key_.worker())));
  Die();
}

void ModelledWorker::Call(Then ask) {
  const double seconds = kControlCall + 2 * cluster_->SiteOf(process_).latency();
  cluster_->queue().After(Duration(static_cast<int64_t>(seconds * 1e9)),
                          [this, ask = std::move(ask)] {
                            if (!dead_) ask();
                          });
}

void ModelledWorker::Spend(double seconds, double threads, Then then) {
  cluster_->Spend(process_, seconds, threads, [this, then = std::move(then)] {
    if (!dead_) then();
  });
}

void ModelledWorker::Join() {
  Call([this] {
    JoinRequest request;
    request.set_name(absl::StrCat("worker-", process_));
    const auto reply = cluster_->Join(request);
    if (!reply.ok()) return GiveUp(reply.status());
    key_ = reply->key();
    if (cluster_->model().failures().every() > 0) Beat();
    Register();
  });
}

void ModelledWorker::Register() {
  Call([this] {
    const absl::Status status = cluster_->Register(key_);
    if (!status.ok()) return GiveUp(status);
    const Config& config = cluster_->config();
    core_ = std::make_unique<WorkerCore>(SessionOptionsOf(config, key_),
                                         PullsAhead(config.consistency()),
                                         cluster_->traffic().placement, cluster_->queue().now());
    Act();
  });
}

void ModelledWorker::Beat() {
  if (dead_) return;
  cluster_->queue().After(Milliseconds(cluster_->config().cluster().lease()) / 4,
                          [this] { Beat(); });
  WorkerReport report;
  report.set_clock(core_ ? core_->session().AcknowledgedClock() : 0);
  const absl::Status status = cluster_->Heartbeat(key_, report);
  if (!status.ok()) GiveUp(status);
}

// At the end of a segment: the coordinator compares the speeds of workers (local.steps: auto).
void ModelledWorker::Do(const task::Report& done) {
  WorkerReport report;
  report.set_clock(done.clock);
  report.set_steps(times_.steps - reported_.steps);
  report.set_samples(report.steps() * static_cast<uint64_t>(cluster_->config().data().batch()));
  report.set_seconds_compute(times_.compute - reported_.compute);
  reported_ = times_;
  const absl::Status status = cluster_->Heartbeat(key_, report);
  if (!status.ok()) return GiveUp(status);
  Done();
}

void ModelledWorker::Done() {
  core_->Done(cluster_->queue().now());
  Act();
}

void ModelledWorker::Act() {
  Send();
  const WorkerTask now = core_->task();
  std::visit([this](const auto& task) { Do(task); }, now);
}

void ModelledWorker::Do(const task::AskSegment& ask) {
  Call([this, request = ask.request] {
    const auto reply = cluster_->NextSegment(request);
    if (!reply.ok()) return GiveUp(reply.status());
    idle_ = reply->kind() != NextSegmentReply::RUN;
    core_->OnSegment(*reply, cluster_->queue().now());
    Act();
  });
}

void ModelledWorker::Do(const task::Pause& pause) {
  if (cluster_->Dealt()) return;
  cluster_->queue().After(pause.duration, [this] {
    if (!dead_) Done();
  });
}

void ModelledWorker::Do(const task::Evaluate& evaluate) {
  // Its time is added to the run's by the one who asked for the simulation.
  const absl::Status status = cluster_->Evaluated(key_, evaluate.epoch);
  if (!status.ok()) return GiveUp(status);
  Done();
}

double ModelledWorker::ComputeSeconds() {
  const SimWorker& model = cluster_->model().worker();
  const double usual = model.step() + model.sample() * cluster_->config().data().batch();
  return usual * pace_ * Around1(model.spread(), &chance_);
}

void ModelledWorker::Do(const task::BeginSegment& begin) {
  most_steps_ = std::max(1u, begin.segment.most_steps());
  Done();
}

void ModelledWorker::Do(const task::Await& await) {
  since_ = cluster_->queue().now();
  const uint64_t wait = ++wait_;
  const bool steps = await.what == task::Await::kWeights && core_->step_follows();
  if (steps && trained_ && local().delay() > 0) {
    trains_ahead_ = true;
    // As the trainer: of a worker with fewer steps, or of a short clock, the same share.
    steps_ahead_ = std::min(static_cast<uint64_t>(local().delay()), most_steps_ - 1) *
                   core_->steps() / most_steps_;
    TakeLocalSteps(steps_ahead_, [this] {
      trains_ahead_ = false;
      since_ = cluster_->queue().now();
      if (awaits()) Pump();
    });
  }
  Pump();
  if (wait_ == wait && awaits()) WatchWait(wait);
}

void ModelledWorker::Do(const task::Install& install) {
  core_->session().TakePulled();
  if (!install.for_step) return Done();
  times_.wait += Seconds(cluster_->queue().now() - since_);
  since_ = cluster_->queue().now();
  Spend(cluster_->InstallSeconds(), 1, [this] {
    times_.encode += Seconds(cluster_->queue().now() - since_);
    Done();
  });
}

const LocalConfig& ModelledWorker::local() const { return cluster_->config().local(); }

void ModelledWorker::Do(const task::Train& train) {
  cluster_->SpendBeside(process_, cluster_->model().worker().beside());
  trained_ = true;
  steps_ = train.steps;
  if (!TakesLocalSteps(local())) return Compute(train.clock, 0, ComputeSeconds());
  TakeLocalSteps(train.steps - std::exchange(steps_ahead_, 0),
                 [this, clock = train.clock] { Compute(clock, 0, 0); });
}

void ModelledWorker::TakeLocalSteps(uint64_t steps, Then then) {
  double seconds = 0;
  for (uint64_t i = 0; i < steps; ++i) seconds += ComputeSeconds();
  const Time begun = cluster_->queue().now();
  Spend(seconds, cluster_->model().worker().threads(), [this, begun, then = std::move(then)] {
    times_.compute += Seconds(cluster_->queue().now() - begun);
    then();
  });
}

void ModelledWorker::Compute(uint64_t clock, size_t part, double seconds) {
  const auto& parts = cluster_->gradients();
  if (part == parts.size()) return EndClock();
  since_ = cluster_->queue().now();
  Spend(seconds * parts[part].time, cluster_->model().worker().threads(), [=, this] {
    times_.compute += Seconds(cluster_->queue().now() - since_);
    since_ = cluster_->queue().now();
    Spend(cluster_->EncodeSeconds() * parts[part].encode, 1, [=, this] {
      times_.encode += Seconds(cluster_->queue().now() - since_);
      const Traffic& traffic = cluster_->traffic();
      for (uint32_t slice : parts[part].slices) {
        if (!core_->session().fragments().Carries(clock, slice)) continue;
        const SliceBytes& bytes = traffic.bytes[slice];
        core_->session().Push(clock, {slice, bytes.push_codec, HollowPayload(bytes.push)},
                              cluster_->queue().now());
      }
      Send();
      Compute(clock, part + 1, seconds);
    });
  });
}

void ModelledWorker::EndClock() {
  times_.steps += steps_;
  cluster_->ClockDone(steps_);
  Done();
}

void ModelledWorker::WatchWait(uint64_t wait) {
  cluster_->queue().At(core_->session().NextTick(), [this, wait] {
    if (dead_ || wait_ != wait || !awaits()) return;
    const absl::Status status = core_->session().Tick(cluster_->queue().now());
    if (!status.ok()) return GiveUp(status);
    Send();
    WatchWait(wait);
  });
}

void ModelledWorker::Pump() {
  Send();
  if (trains_ahead_) return;
  if (core_->Advance(cluster_->queue().now())) Act();
}

void ModelledWorker::Send() {
  while (auto next = core_->session().Next()) {
    const auto shard = static_cast<uint32_t>(next->to);
    Connection& connection = *to_shards_[shard];
    cluster_->SendToShard(this, shard, *next->message, &connection);
    core_->session().Sent(cluster_->queue().now());
  }
}

void ModelledWorker::Receive(uint32_t shard, const Message& message) {
  if (dead_ || !core_) return;
  core_->session().OnMessage(shard, message, cluster_->queue().now());
  if (awaits()) Pump();
}

}  // namespace psgd::sim
