#include "tests/sim/worker.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "net/wire_format.h"
#include "tests/sim/gradients.h"
#include "tests/sim/world.h"

namespace psgd::sim {
namespace {
constexpr Duration kWorkerTick = std::chrono::milliseconds(10);
constexpr double kFullQueue = 0.02;  // how often the transport takes nothing
}  // namespace

Worker::Worker(World* world, uint32_t process, uint64_t seed)
    : world_(world), process_(process), chance_(seed, 1000 + process) {}

void Worker::Start() {
  Join();
  Tick();
}

void Worker::Crash(const std::string& why) {
  if (dead_) return;
  if (world_->tracing()) world_->Note(absl::StrCat("process ", process_, " ends: ", why));
  dead_ = true;
  if (core_) world_->CountResent(core_->stats().resent);
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

Time Worker::Now() const { return world_->queue().now() + clock_offset_; }

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
    if (core_) core_->OnMessage(shard, message, Now());
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
    if (!condition_ || !condition_()) break;
    condition_ = nullptr;
    const Then then = std::move(then_);
    then();
  }
  pumping_ = false;
}

void Worker::WaitUntil(std::function<bool()> condition, Then then) {
  condition_ = std::move(condition);
  then_ = std::move(then);
  Pump();
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
  while (auto next = core_->Next()) {
    if (chance_.Happens(kFullQueue)) {
      core_->Retry(now, std::chrono::milliseconds(2));
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
    core_->Sent(now);
  }
}

void Worker::Tick() {
  if (dead_ || done_) return;
  world_->queue().After(kWorkerTick, [this] { Tick(); });
  if (!core_ || busy_ || !condition_ || world_->queue().now() < paused_until_) return;
  const absl::Status status = core_->Tick(Now());
  if (!status.ok()) return GiveUp(status);
  Pump();
}

void Worker::Join() {
  JoinRequest request;
  request.set_name(absl::StrCat("p", process_));
  request.set_protocol(kProtocolVersion);
  Call<JoinReply>(request, [this](absl::StatusOr<JoinReply> reply) {
    if (!reply.ok()) return GiveUp(reply.status());
    key_ = reply->key();
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
    const Scenario& scenario = world_->scenario();
    SessionOptions options;
    options.key = key_;
    options.resend = Milliseconds(scenario.config.cluster().resend());
    options.deadline = Milliseconds(scenario.config.cluster().deadline());
    options.window_bytes = scenario.window_bytes;
    options.fuse_bytes = scenario.fuse_bytes;
    core_ = std::make_unique<SessionCore>(options, placement_, Now());
    Ask();
  });
}

void Worker::Beat() {
  if (dead_ || done_) return;
  const Duration period = Milliseconds(world_->scenario().config.cluster().lease()) / 5;
  world_->queue().After(period, [this] { Beat(); });
  if (world_->queue().now() >= paused_until_) SendReport();
}

void Worker::SendReport() {
  HeartbeatRequest request;
  *request.mutable_key() = key_;
  *request.mutable_report() = report_;
  if (world_->scenario().sabotage == Sabotage::kClaimSteps) {
    request.mutable_report()->set_clock(dealt_);  // more would be refused
  }
  report_.clear_steps();
  Call<HeartbeatReply>(request, [this](absl::StatusOr<HeartbeatReply> reply) {
    if (!reply.ok() && !done_) return GiveUp(reply.status());
    if (reply.ok()) CompareEndpoints({reply->endpoints().begin(), reply->endpoints().end()});
  });
}

void Worker::CompareEndpoints(const std::vector<std::string>& endpoints) {
  if (!core_ || endpoints.empty() || endpoints == endpoints_) return;
  endpoints_ = endpoints;
  core_->ShardsMoved(endpoints, Now());
}

void Worker::Finish() {
  done_ = true;
  for (const auto& [slice, residual] : residuals_) {
    world_->oracle().Keeps(key_, slice, residual);
  }
  world_->CountResent(core_->stats().resent);
  LeaveRequest request;
  *request.mutable_key() = key_;
  request.set_reason("the run is over");
  Call<LeaveReply>(request, [this](absl::StatusOr<LeaveReply>) { dead_ = true; });
}

}  // namespace psgd::sim
