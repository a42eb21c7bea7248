#include "simulate/modelled_worker.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
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

void ModelledWorker::Die() {
  dead_ = true;
  condition_ = nullptr;
}

void ModelledWorker::GiveUp(const absl::Status& status) {
  cluster_->GaveUp(Annotate(status, absl::StrCat("worker ", key_.worker())));
  Die();
}

void ModelledWorker::Call(Then ask) {
  const double seconds = kControlCall + 2 * cluster_->model().network().latency();
  cluster_->queue().After(Duration(static_cast<int64_t>(seconds * 1e9)),
                          [this, ask = std::move(ask)] {
                            if (!dead_) ask();
                          });
}

void ModelledWorker::Spend(double seconds, double threads, Then then) {
  cluster_->Spend(seconds, threads, [this, then = std::move(then)] {
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
    SessionOptions options;
    options.key = key_;
    options.resend = Milliseconds(config.cluster().resend());
    options.deadline = Milliseconds(config.cluster().deadline());
    options.window_bytes = config.cluster().window();
    options.fuse_bytes = config.cluster().fuse();
    core_ = std::make_unique<SessionCore>(options, cluster_->traffic().placement,
                                          cluster_->queue().now());
    Ask();
  });
}

void ModelledWorker::Beat() {
  if (dead_) return;
  cluster_->queue().After(Milliseconds(cluster_->config().cluster().lease()) / 4,
                          [this] { Beat(); });
  const absl::Status status = cluster_->Heartbeat(key_, core_ ? core_->AcknowledgedClock() : 0);
  if (!status.ok()) GiveUp(status);
}

void ModelledWorker::Ask() {
  Call([this] {
    NextSegmentRequest request;
    *request.mutable_key() = key_;
    request.set_first(first_);
    request.set_finished_segment(finished_segment_);
    const auto reply = cluster_->NextSegment(request);
    if (!reply.ok()) return GiveUp(reply.status());
    Follow(*reply);
  });
}

void ModelledWorker::Follow(const NextSegmentReply& reply) {
  if (reply.evaluate()) {
    // Its time is added to the run's by the one who asked for the simulation.
    const absl::Status status = cluster_->Evaluated(key_, reply.evaluate_epoch());
    if (!status.ok()) return GiveUp(status);
  }
  idle_ = reply.kind() != NextSegmentReply::RUN;
  if (!idle_) return Take(reply.segment());
  if (reply.kind() == NextSegmentReply::DONE || cluster_->Dealt()) return;
  cluster_->queue().After(Milliseconds(reply.wait_ms()), [this] {
    if (!dead_) Ask();
  });
}

void ModelledWorker::Take(const Segment& segment) {
  segment_ = segment.id();
  first_clock_ = segment.first_clock();
  clocks_ = segment.clocks();
  batches_ = static_cast<uint32_t>(segment.batches_size());
  Run(0);
}

bool ModelledWorker::HasBatch(uint32_t step) const { return step < clocks_ && step < batches_; }

void ModelledWorker::Run(uint32_t step) {
  while (step < clocks_ && !HasBatch(step)) {
    core_->EndClock(first_clock_ + ++step, cluster_->queue().now());
    Send();
  }
  if (step < clocks_) return Step(step);
  EndSegment();
}

void ModelledWorker::EndSegment() {
  WaitUntil([this] { return core_->AllAcknowledged(); },
            [this] {
              first_ = false;
              finished_segment_ = segment_;
              Ask();
            });
}

double ModelledWorker::ComputeSeconds() {
  const SimWorker& model = cluster_->model().worker();
  const double usual = model.step() + model.sample() * cluster_->config().data().batch();
  return usual * pace_ * Around1(model.spread(), &chance_);
}

void ModelledWorker::Step(uint32_t step) {
  since_ = cluster_->queue().now();
  const uint64_t clock = first_clock_ + step + 1;
  if (!std::exchange(pulled_ahead_, false)) core_->Pull(clock - 1, since_);
  WaitUntil([this] { return !core_->pulling(); },
            [this, step, clock] {
              times_.wait += Seconds(cluster_->queue().now() - since_);
              since_ = cluster_->queue().now();
              core_->TakePulled();
              Spend(cluster_->InstallSeconds(), 1, [this, step, clock] {
                times_.encode += Seconds(cluster_->queue().now() - since_);
                if (cluster_->config().consistency().pull_ahead() && HasBatch(step + 1)) {
                  core_->Pull(clock, cluster_->queue().now());
                  pulled_ahead_ = true;
                  Send();
                }
                cluster_->SpendBeside(cluster_->model().worker().beside());
                Compute(step, 0, ComputeSeconds());
              });
            });
}

void ModelledWorker::Compute(uint32_t step, size_t part, double seconds) {
  const auto& parts = cluster_->gradients();
  if (part == parts.size()) return EndStep(step);
  since_ = cluster_->queue().now();
  Spend(seconds * parts[part].time, cluster_->model().worker().threads(), [=, this] {
    times_.compute += Seconds(cluster_->queue().now() - since_);
    since_ = cluster_->queue().now();
    Spend(cluster_->EncodeSeconds() * parts[part].encode, 1, [=, this] {
      times_.encode += Seconds(cluster_->queue().now() - since_);
      const Traffic& traffic = cluster_->traffic();
      for (uint32_t slice : parts[part].slices) {
        const SliceBytes& bytes = traffic.bytes[slice];
        core_->Push(first_clock_ + step + 1, {slice, bytes.push_codec, HollowPayload(bytes.push)},
                    cluster_->queue().now());
      }
      Send();
      Compute(step, part + 1, seconds);
    });
  });
}

void ModelledWorker::EndStep(uint32_t step) {
  core_->EndClock(first_clock_ + step + 1, cluster_->queue().now());
  Send();
  ++times_.steps;
  cluster_->StepDone();
  Run(step + 1);
}

void ModelledWorker::WaitUntil(std::function<bool()> condition, Then then) {
  condition_ = std::move(condition);
  then_ = std::move(then);
  const uint64_t wait = ++wait_;
  Pump();
  if (wait_ == wait && condition_) WatchWait(wait);
}

void ModelledWorker::WatchWait(uint64_t wait) {
  cluster_->queue().At(core_->NextTick(), [this, wait] {
    if (dead_ || wait_ != wait || !condition_) return;
    const absl::Status status = core_->Tick(cluster_->queue().now());
    if (!status.ok()) return GiveUp(status);
    Send();
    WatchWait(wait);
  });
}

void ModelledWorker::Pump() {
  Send();
  if (!condition_ || !condition_()) return;
  condition_ = nullptr;
  std::exchange(then_, nullptr)();
}

void ModelledWorker::Send() {
  while (auto next = core_->Next()) {
    const auto shard = static_cast<uint32_t>(next->to);
    Connection& connection = *to_shards_[shard];
    cluster_->SendToShard(this, shard, *next->message, &connection);
    core_->Sent(cluster_->queue().now());
  }
}

void ModelledWorker::Receive(uint32_t shard, const Message& message) {
  if (dead_ || !core_) return;
  core_->OnMessage(shard, message, cluster_->queue().now());
  if (condition_) Pump();
}

}  // namespace psgd::sim
