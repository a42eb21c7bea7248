// A coordinator, and workers whose requests the test writes. Every error on the way is a test
// failure.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/coordinator/coordinator_core.h"

namespace psgd {

inline Config CoordinatorConfig(int workers, int epochs, int segment) {
  Config config;
  config.set_name("test-run");
  config.mutable_cluster()->set_workers(workers);
  config.mutable_cluster()->set_shards(2);
  config.mutable_cluster()->set_segment(segment);
  config.mutable_cluster()->set_lease(10000);
  config.mutable_train()->set_epochs(epochs);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5);
  return config;
}

class CoordinatorFixture {
 public:
  explicit CoordinatorFixture(CoordinatorOptions options, uint64_t batches_per_epoch = 8)
      : core_(std::move(options)), batches_(batches_per_epoch) {}
  CoordinatorFixture(const Config& config, uint64_t batches_per_epoch = 8)
      : CoordinatorFixture(CoordinatorOptions{.config = config, .resume = {}, .checkpoint = {}},
                           batches_per_epoch) {}

  CoordinatorCore& core() { return core_; }
  Time now() const { return now_; }
  // Lets time pass in small steps, as for a coordinator that checks leases all the time.
  void Pass(Duration time) {
    constexpr Duration kTick = std::chrono::milliseconds(100);
    for (const Time end = now_ + time; now_ < end;) {
      now_ = std::min<Time>(now_ + kTick, end);
      Tick();
    }
  }

  WorkerKey Join() {
    JoinRequest request;
    request.set_name("host");
    auto reply = core_.Join(request, now_, &effects_);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->key() : WorkerKey();
  }
  RegisterRequest Registration(const WorkerKey& key) const {
    RegisterRequest request;
    *request.mutable_key() = key;
    ParameterSpec* parameter = request.mutable_model()->add_parameters();
    parameter->set_name("w");
    parameter->add_shape(100);
    request.set_batches_per_epoch(batches_);
    request.set_train_samples(100 * batches_);
    return request;
  }
  WorkerKey JoinAndRegister() {
    const WorkerKey key = Join();
    const auto reply = core_.Register(Registration(key), {"a", "b"}, now_, &effects_);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return key;
  }
  // Asks for the segment after `finished`; 0: for the worker's first segment.
  NextSegmentReply Next(const WorkerKey& key, uint64_t finished = 0) {
    NextSegmentRequest request;
    *request.mutable_key() = key;
    request.set_first(finished == 0);
    request.set_finished_segment(finished);
    auto reply = core_.NextSegment(request, now_, &effects_);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : NextSegmentReply();
  }
  absl::Status NextStatus(const WorkerKey& key, uint64_t finished) {
    NextSegmentRequest request;
    *request.mutable_key() = key;
    request.set_finished_segment(finished);
    return core_.NextSegment(request, now_, &effects_).status();
  }
  void Evaluate(const WorkerKey& key, double epoch, double accuracy = 0.9) {
    EXPECT_TRUE(EvaluateWith(key, epoch, accuracy, {}).ok());
  }
  absl::Status EvaluateWith(const WorkerKey& key, double epoch, double accuracy,
                            const std::vector<std::string>& measures, uint64_t clock = 0) {
    EvaluatedRequest request;
    *request.mutable_key() = key;
    request.mutable_result()->set_clock(clock);
    request.mutable_result()->set_epoch(epoch);
    request.mutable_result()->set_accuracy(accuracy);
    for (const auto& name : measures) (*request.mutable_result()->mutable_measures())[name] = 0.5;
    return core_.Evaluated(request, now_, &effects_);
  }
  void Leave(const WorkerKey& key) {
    LeaveRequest request;
    *request.mutable_key() = key;
    EXPECT_TRUE(core_.Leave(request, now_, &effects_).ok());
  }
  void Fail(const WorkerKey& key, const std::string& why) {
    LeaveRequest request;
    *request.mutable_key() = key;
    request.set_failed(true);
    request.set_reason(why);
    EXPECT_TRUE(core_.Leave(request, now_, &effects_).ok());
  }
  void CheckpointDone(uint64_t id, const absl::Status& status = absl::OkStatus()) {
    core_.CheckpointDone(id, status, &effects_);
  }
  void Tick() { core_.Tick(now_, &effects_); }
  void Drain(const std::string& reason, bool failed = false) {
    DrainRequest request;
    request.set_reason(reason);
    request.set_failed(failed);
    core_.Drain(request, &effects_);
  }
  void Beat(const WorkerKey& key, uint64_t clock = 0) {
    HeartbeatRequest request;
    *request.mutable_key() = key;
    request.mutable_report()->set_clock(clock);
    EXPECT_TRUE(core_.Heartbeat(request, now_).ok());
  }
  // Commands of this type since the last call for the type.
  template <typename Command>
  std::vector<Command> Commands() {
    std::vector<Command> found;
    for (const ShardCommand& command : effects_.commands) {
      if (const auto* wanted = std::get_if<Command>(&command)) found.push_back(*wanted);
    }
    std::erase_if(effects_.commands,
                  [](const ShardCommand& c) { return std::holds_alternative<Command>(c); });
    return found;
  }
  std::string News() const {
    std::string all;
    for (const std::string& line : effects_.news) all += line + "\n";
    return all;
  }

 private:
  CoordinatorCore core_;
  const uint64_t batches_;
  Time now_ = std::chrono::hours(1);
  Effects effects_;
};

}  // namespace psgd
