// The part of Worker that trains: what train/trainer.cc does between two segments and in a step.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/sim/gradients.h"
#include "tests/sim/worker.h"
#include "tests/sim/world.h"
#include "worker/install_slice.h"

namespace psgd::sim {
namespace {
constexpr Duration kFastest = std::chrono::milliseconds(1);
}  // namespace

void Worker::Ask() {
  NextSegmentRequest request;
  *request.mutable_key() = key_;
  request.set_first(first_);
  request.set_finished_segment(finished_segment_);
  Call<NextSegmentReply>(request, [this](absl::StatusOr<NextSegmentReply> reply) {
    if (!reply.ok()) return GiveUp(reply.status());
    const bool polls = reply->kind() == NextSegmentReply::WAIT && reply->reason() == waits_for_;
    waits_for_ = reply->reason();
    if (world_->tracing() && !polls) {
      world_->Note(absl::StrCat("process ", process_, " as worker ", key_.worker(), " is to ",
                                NextSegmentReply::Kind_Name(reply->kind()), " ", reply->reason(),
                                reply->evaluate() ? ", evaluates" : "",
                                reply->save_state_for() ? ", saves" : ""));
    }
    Follow(*reply);
  });
}

void Worker::Follow(const NextSegmentReply& reply) {
  if (reply.save_state_for() > saved_checkpoint_) {
    return Save(reply.save_state_for(), [this, reply] { Follow(reply); });
  }
  if (reply.evaluate()) {
    NextSegmentReply rest = reply;
    rest.set_evaluate(false);
    return Evaluate(reply.evaluate_epoch(), [this, rest] { Follow(rest); });
  }
  switch (reply.kind()) {
    case NextSegmentReply::DONE:
      return Finish();
    case NextSegmentReply::RUN:
      dealt_ = reply.segment().first_clock() + reply.segment().clocks();
      return Run(reply.segment(), 0);
    default:
      world_->queue().After(Milliseconds(reply.wait_ms()), [this] { Post([this] { Ask(); }); });
  }
}

void Worker::Save(uint64_t checkpoint, Then then) {
  std::vector<std::pair<uint32_t, Bytes>> residuals;
  for (int id = 0; id < placement_.slices_size(); ++id) {
    const uint32_t elements = placement_.slices(id).count();
    std::vector<float> values(elements, static_cast<float>(clock_));
    if (!encoders_.empty()) values = residuals_[id];
    residuals.emplace_back(id, Bytes::CopyOf(AsBytes(values)));
  }
  saved_checkpoint_ = checkpoint;
  core_->SaveState(checkpoint, residuals, Now());
  WaitUntil([this] { return core_->AllAcknowledged(); }, std::move(then));
}

void Worker::Evaluate(double epoch, Then then) {
  core_->Pull(clock_, Now());
  WaitUntil([this] { return !core_->pulling(); },
            [=, this] {
              Compute(world_->scenario().longest_step, [=, this] {
                EvaluatedRequest request;
                *request.mutable_key() = key_;
                request.mutable_result()->set_epoch(epoch);
                request.mutable_result()->set_clock(clock_);
                Call<EvaluatedReply>(request, [this, then](absl::StatusOr<EvaluatedReply> reply) {
                  if (!reply.ok()) return GiveUp(reply.status());
                  then();
                });
              });
            });
}

bool Worker::HasBatch(const Segment& segment, uint32_t step) const {
  return step < segment.clocks() && step < static_cast<uint32_t>(segment.batches_size());
}

void Worker::Run(const Segment& segment, uint32_t step) {
  if (step == segment.clocks()) {
    WaitUntil([this] { return core_->AllAcknowledged(); },
              [=, this] {
                first_ = false;
                finished_segment_ = segment.id();
                clock_ = segment.first_clock() + segment.clocks();
                report_.set_clock(clock_);
                SendReport();
                Ask();
              });
    return;
  }
  const uint64_t clock = segment.first_clock() + step + 1;
  if (HasBatch(segment, step)) return Step(segment, step, clock);
  core_->EndClock(clock, Now());
  Run(segment, step + 1);
}

void Worker::Step(const Segment& segment, uint32_t step, uint64_t clock) {
  if (!pulled_ahead_) core_->Pull(clock - 1, Now());
  WaitUntil([this] { return !core_->pulling(); },
            [=, this] {
              Install();
              pulled_ahead_ = world_->scenario().config.consistency().pull_ahead() &&
                              HasBatch(segment, step + 1);
              if (pulled_ahead_) core_->Pull(clock, Now());
              Compute(chance_.Between(kFastest, world_->scenario().longest_step), [=, this] {
                PushAll(clock);
                core_->EndClock(clock, Now());
                report_.set_clock(core_->AcknowledgedClock());
                report_.set_steps(report_.steps() + 1);
                Run(segment, step + 1);
              });
            });
}

void Worker::Install() {
  const std::vector<PulledSlice> pulled = core_->TakePulled();
  weights_.resize(pulled.size());
  const CodecTable codecs;
  for (uint32_t id = 0; id < pulled.size(); ++id) {
    const uint32_t elements = placement_.slices(static_cast<int>(id)).count();
    weights_[id].resize(elements);
    const absl::Status installed =
        InstallSlice(codecs, {elements, elements, 1, 0}, pulled[id], weights_[id]);
    if (!installed.ok()) world_->oracle().Breach(installed.ToString());
    world_->oracle().Installed(key_, id, pulled[id], weights_[id]);
  }
}

void Worker::PushAll(uint64_t clock) {
  const Scenario& scenario = world_->scenario();
  const uint32_t member = *world_->oracle().Member(key_);
  const bool poison = chance_.Happens(scenario.poison);
  const CodecConfig& push = scenario.config.compression().push();
  // Backward: the last layers' gradients are ready first.
  for (int id = placement_.slices_size() - 1; id >= 0; --id) {
    const uint32_t elements = placement_.slices(id).count();
    std::vector<float> gradient;
    std::vector<std::byte> payload;
    if (!push.has_none()) {
      gradient = PlainGradient(scenario.seed, member, clock, id, elements);
      world_->oracle().Accumulated(id, clock, gradient);
      auto& encoder = encoders_[id];
      if (!encoder) encoder = (*MakeCodec(push))->NewEncoder({elements, elements, 1, 0});
      auto& residual = residuals_[id];
      residual.resize(elements);
      encoder->Encode({gradient, residual, {}, clock}, &payload);
      if (scenario.sabotage == Sabotage::kForgetResidual)
        std::fill(residual.begin(), residual.end(), 0.0f);
    } else {
      gradient = scenario.smooth
                     ? SmoothGradient(scenario.seed, key_.worker(), clock, id, weights_[id])
                     : WholeGradient(scenario.seed, member, clock, id, elements);
      if (poison && id == 0) {
        gradient.back() = std::numeric_limits<float>::quiet_NaN();
        poisoned_[{id, clock}] = true;
      }
      const ByteSpan bytes = AsBytes(gradient);
      payload.assign(bytes.begin(), bytes.end());
    }
    const CodecId codec = push.has_none() ? CODEC_NONE : CODEC_TOPK;
    core_->Push(clock, {static_cast<uint32_t>(id), codec, Bytes::Adopt(std::move(payload))}, Now());
    Send();
  }
}

}  // namespace psgd::sim
