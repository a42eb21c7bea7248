#include "tests/sim/worker.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "net/wire_format.h"
#include "tests/sim/gradients.h"
#include "tests/sim/world.h"
#include "worker/install_slice.h"

namespace psgd::sim {
namespace {
constexpr Duration kWorkerTick = std::chrono::milliseconds(10);
constexpr Duration kFastest = std::chrono::milliseconds(1);
constexpr uint32_t kNames = 4;       // as many as the processes of a run's beginning
constexpr double kFullQueue = 0.02;  // how often the transport takes nothing
}  // namespace

Worker::Worker(World* world, uint32_t process, uint64_t seed)
    : world_(world),
      process_(process),
      replaces_(Chance(seed, 2000 + process).Happens(0.5)),
      chance_(seed, 1000 + process) {}

void Worker::Start() {
  Join();
  Tick();
}

void Worker::Crash(const std::string& why) {
  if (dead_) return;
  if (world_->tracing()) world_->Note(absl::StrCat("process ", process_, " ends: ", why));
  dead_ = true;
  if (core_) world_->CountResent(core_->session().stats().resent);
  world_->Ended(this);
}

void Worker::GiveUp(const absl::Status& status) {
  // A shard is never out of reach for as long as the deadline in a simulated run.
  if (absl::IsDataLoss(status)) {
    world_->FoundOut(absl::StrCat("process ", process_, " gave up: ", status.ToString()));
  } else if (absl::IsDeadlineExceeded(status) || absl::IsInternal(status) ||
             absl::IsInvalidArgument(status)) {
    world_->oracle().Breach(absl::StrCat("process ", process_, " gave up: ", status.ToString()));
  }
  Crash(std::string(status.message()));
}

Time Worker::Now() const { return world_->queue().now(); }

void Worker::Pause(Duration duration) {
  paused_until_ = std::max(paused_until_, world_->queue().now() + duration);
  world_->queue().At(paused_until_, [this] { Pump(); });
}

void Worker::Post(std::function<void()> action) {
  if (dead_) return;
  inbox_.push_back(std::move(action));
  Pump();
}

void Worker::Receive(uint32_t shard, const Message& message) {
  Post([this, shard, message] {
    if (core_) core_->session().OnMessage(shard, message, Now());
  });
}

void Worker::Pump() {
  if (pumping_) return;
  pumping_ = true;
  while (!dead_ && !busy_ && world_->queue().now() >= paused_until_) {
    if (!inbox_.empty()) {
      const Then action = std::move(inbox_.front());
      inbox_.pop_front();
      action();
      continue;
    }
    if (core_) Send();
    if (!awaits()) break;
    SetAsked();
    if (!core_->Advance(Now())) break;
    Act();
  }
  pumping_ = false;
}

void Worker::Compute(Duration duration, Then then) {
  if (slow_step_.count() > 0) {
    duration = slow_step_;
    slow_step_ = {};
  }
  busy_ = true;
  world_->queue().After(duration, [this, then] {
    busy_ = false;
    // Before what came in meanwhile: the thread that computes also receives.
    inbox_.push_front(then);
    Pump();
  });
}

void Worker::Send() {
  const Time now = Now();
  while (auto next = core_->session().Next()) {
    if (chance_.Happens(kFullQueue)) {
      core_->session().Retry(now, std::chrono::milliseconds(2));
      continue;
    }
    bool poisoned = false;
    for (const PushPart& part : next->message->header.push().parts()) {
      poisoned |= poisoned_.count({part.slice(), next->message->header.push().clock()}) > 0;
    }
    world_->oracle().Made(*next->message, poisoned);
    const auto shard = static_cast<uint32_t>(next->to);
    world_->SendToShard(this, static_cast<uint32_t>(std::stoul(endpoints_[shard])), shard,
                        *next->message);
    core_->session().Sent(now);
  }
}

void Worker::Tick() {
  if (dead_ || done_) return;
  world_->queue().After(kWorkerTick, [this] { Tick(); });
  if (!awaits() || busy_ || world_->queue().now() < paused_until_) return;
  const absl::Status status = core_->session().Tick(Now());
  if (!status.ok()) return GiveUp(status);
  Pump();
}

void Worker::Join() {
  JoinRequest request;
  request.set_replaces(replaces_);
  request.set_name(replaces_ ? absl::StrCat("w", process_ % kNames) : absl::StrCat("p", process_));
  request.set_protocol(kProtocolVersion);
  request.set_local_steps(true);
  request.set_attempt(process_ + 1);
  Call<JoinReply>(request, [this](absl::StatusOr<JoinReply> reply) {
    if (!reply.ok()) return GiveUp(reply.status());
    key_ = reply->key();
    lease_ = std::make_unique<LeaseCore>(*reply);
    Beat();
    Register();
  });
}

void Worker::Register() {
  RegisterRequest request;
  *request.mutable_key() = key_;
  *request.mutable_model() = world_->scenario().model;
  request.set_batches_per_epoch(world_->scenario().batches_per_epoch);
  Call<RegisterReply>(request, [this](absl::StatusOr<RegisterReply> reply) {
    if (!reply.ok()) return GiveUp(reply.status());
    placement_ = reply->placement();
    endpoints_.assign(placement_.endpoints().begin(), placement_.endpoints().end());
    lease_->SetEndpoints(endpoints_);
    const Scenario& scenario = world_->scenario();
    SessionOptions options = SessionOptionsOf(scenario.config, key_);
    options.window_bytes = scenario.window_bytes;
    options.fuse_bytes = scenario.fuse_bytes;
    core_ =
        std::make_unique<WorkerCore>(options, PullsAhead(scenario.config.consistency()), placement_,
                                     Now(), WorkerCore::AtEnd::kAsk, OnDrainOf(scenario.config));
    Act();
  });
}

void Worker::Beat() {
  if (dead_ || done_) return;
  world_->queue().After(lease_->period(), [this] { Beat(); });
  if (world_->queue().now() >= paused_until_ && !reporting_) SendReport([] {});
}

void Worker::SendReport(Then answered) {
  if (reporting_) {
    report_next_ = std::move(answered);
    return;
  }
  reporting_ = true;
  if (world_->scenario().sabotage == Sabotage::kClaimSteps) {
    lease_->report().set_clock(dealt_);  // more would be refused
  }
  const Time asked = Now();
  Call<HeartbeatReply>(lease_->Beat(), [this, asked, answered = std::move(answered)](
                                           absl::StatusOr<HeartbeatReply> reply) {
    if (!reply.ok() && done_) return;
    reporting_ = false;
    (void)lease_->OnAnswer(reply, asked, Now());
    if (!reply.ok()) return GiveUp(reply.status());
    if (auto moved = lease_->TakeMove(); moved && core_) {
      endpoints_ = *std::move(moved);
      core_->session().ShardsMoved(endpoints_, Now());
    }
    answered();
    if (Then next = std::exchange(report_next_, nullptr)) SendReport(std::move(next));
  });
}

void Worker::SetAsked() {
  core_->SetAsked(leave_asked_ || lease_->leave_asked().has_value(), lease_->drain());
}

void Worker::Done() {
  SetAsked();
  core_->Done(Now());
  Act();
}

void Worker::Act() {
  const WorkerTask now = core_->task();
  std::visit([this](const auto& task) { Do(task); }, now);
  Pump();
}

void Worker::Do(const task::AskSegment& ask) {
  Call<NextSegmentReply>(ask.request, [this](absl::StatusOr<NextSegmentReply> reply) {
    if (!reply.ok()) return GiveUp(reply.status());
    const bool polls = reply->kind() == NextSegmentReply::WAIT && reply->reason() == waits_for_;
    waits_for_ = reply->reason();
    if (world_->tracing() && !polls) {
      world_->Note(absl::StrCat("process ", process_, " as worker ", key_.worker(), " is to ",
                                NextSegmentReply::Kind_Name(reply->kind()), " ", reply->reason(),
                                reply->evaluate() ? ", evaluates" : "",
                                reply->save_state_for() ? ", saves" : ""));
    }
    SetAsked();
    core_->OnSegment(*reply, Now());
    Act();
  });
}

void Worker::Do(const task::Pause& pause) {
  const bool keeps = std::any_of(residuals_.begin(), residuals_.end(), [](const auto& slice) {
    return std::any_of(slice.second.begin(), slice.second.end(), [](float x) { return x != 0; });
  });
  if (pause.leaves && !keeps) {
    core_->LeaveNow();
    return Act();
  }
  world_->queue().After(pause.duration, [this] { Post([this] { Done(); }); });
}

void Worker::Do(const task::RestoreState&) {
  for (const auto& [slice, state] : core_->session().TakeLoadedState()) {
    world_->oracle().Loaded(key_, slice, AsFloats(state));
  }
  Done();
}

void Worker::Do(const task::SaveState& save) {
  std::vector<std::pair<uint32_t, Bytes>> residuals;
  for (int id = 0; id < placement_.slices_size(); ++id) {
    const uint32_t elements = placement_.slices(id).count();
    std::vector<float> values(elements, static_cast<float>(core_->clock()));
    if (!encoders_.empty()) values = residuals_[id];
    residuals.emplace_back(id, Bytes::CopyOf(AsBytes(values)));
  }
  core_->session().SaveState(save.checkpoint, residuals, Now());
  Done();
}

void Worker::Do(const task::BeginSegment& begin) {
  dealt_ = begin.segment.first_clock() + begin.segment.clocks();
  Done();
}

void Worker::Do(const task::Train& train) {
  const Duration took = chance_.Between(kFastest, world_->scenario().longest_step);
  Compute(took, [this, train, took] {
    PushAll(train.clock);
    WorkerReport& report = lease_->report();
    report.set_steps(report.steps() + train.steps);
    report.set_samples(report.samples() + train.steps);
    report.set_seconds_compute(report.seconds_compute() + Seconds(took));
    report.set_clock(core_->session().AcknowledgedClock());
    Done();
  });
}

void Worker::Do(const task::Evaluate& evaluate) {
  Compute(world_->scenario().longest_step, [this, evaluate] {
    EvaluatedRequest request;
    *request.mutable_key() = key_;
    request.mutable_result()->set_epoch(evaluate.epoch);
    request.mutable_result()->set_clock(evaluate.clock);
    Call<EvaluatedReply>(request, [this](absl::StatusOr<EvaluatedReply> reply) {
      if (!reply.ok()) return GiveUp(reply.status());
      Done();
    });
  });
}

void Worker::Do(const task::Report& report) {
  lease_->report().set_clock(report.clock);
  SendReport([this] { Done(); });
}

void Worker::Do(const task::GiveResidual& give) {
  for (auto& [slice, residual] : residuals_) {
    core_->session().Push(give.clock, {slice, CODEC_NONE, Bytes::CopyOf(AsBytes(residual))}, Now());
    std::fill(residual.begin(), residual.end(), 0.0f);
  }
  core_->GaveResidual(!residuals_.empty(), Now());
}

void Worker::Do(const task::Leave&) {
  done_ = true;
  for (const auto& [slice, residual] : residuals_) {
    world_->oracle().Keeps(key_, slice, residual);
  }
  world_->CountResent(core_->session().stats().resent);
  LeaveRequest request;
  *request.mutable_key() = key_;
  request.set_reason("the run is over");
  Call<LeaveReply>(request, [this](absl::StatusOr<LeaveReply>) { dead_ = true; });
}

void Worker::Do(const task::Install&) {
  const std::vector<PulledSlice> pulled = core_->session().TakePulled();
  weights_.resize(pulled.size());
  const CodecTable codecs;
  for (uint32_t id = 0; id < pulled.size(); ++id) {
    if (!core_->session().Asked(id)) continue;
    const uint32_t elements = placement_.slices(static_cast<int>(id)).count();
    weights_[id].resize(elements);
    const absl::Status installed =
        InstallSlice(codecs, {elements, elements, 1, 0}, pulled[id], weights_[id]);
    if (!installed.ok()) world_->oracle().Breach(installed.ToString());
    world_->oracle().Installed(key_, id, pulled[id], weights_[id]);
  }
  Done();
}

void Worker::PushAll(uint64_t clock) {
  const Scenario& scenario = world_->scenario();
  const uint32_t member = *world_->oracle().Member(key_);
  // Once all has healed the run must end, so there must be a worker that sends sound updates.
  const bool poison = chance_.Happens(scenario.poison) && Now() < scenario.network.heals_at;
  const CodecConfig& push = scenario.config.compression().push();
  // Backward: the last layers' gradients are ready first.
  for (int id = placement_.slices_size() - 1; id >= 0; --id) {
    if (!core_->session().fragments().Carries(clock, static_cast<uint32_t>(id))) continue;
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
    core_->session().Push(
        clock, {static_cast<uint32_t>(id), codec, Bytes::Adopt(std::move(payload))}, Now());
    Send();
  }
}

}  // namespace psgd::sim
