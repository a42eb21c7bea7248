// A shard with a few small slices and three workers in a segment, for fuzz targets and their tests.
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/shard/shard_core.h"
#include "tests/fuzz/fuzz.h"

namespace psgd::fuzz {

inline constexpr uint32_t kShardWorkers = 3;
// Elements of each slice: a matrix in two slices, a vector, and statistics.
inline constexpr uint32_t kSliceElements[] = {40, 20, 5, 3};
inline constexpr uint32_t kMatrixRows = 6, kMatrixColumns = 10;

inline ModelSpec SmallModel() {
  ModelSpec model;
  const auto add = [&](const char* name, std::vector<int64_t> shape, ParameterSpec::Role role) {
    ParameterSpec* parameter = model.add_parameters();
    parameter->set_name(name);
    parameter->mutable_shape()->Add(shape.begin(), shape.end());
    parameter->set_role(role);
  };
  add("fc.weight", {kMatrixRows, kMatrixColumns}, ParameterSpec::TRAINED);
  add("fc.bias", {kSliceElements[2]}, ParameterSpec::TRAINED);
  add("bn.mean", {kSliceElements[3]}, ParameterSpec::STATISTIC);
  model.mutable_parameters(0)->set_decay(true);
  model.mutable_parameters(0)->mutable_initializer()->mutable_normal()->set_stddev(0.1f);
  return model;
}

inline Placement SmallPlacement() {
  Placement placement;
  const uint32_t parameters[] = {0, 0, 1, 2};
  for (size_t i = 0; i < std::size(kSliceElements); ++i) {
    SliceSpec* slice = placement.add_slices();
    slice->set_parameter(parameters[i]);
    slice->set_offset(i == 1 ? kSliceElements[0] : 0);
    slice->set_count(kSliceElements[i]);
  }
  placement.add_endpoints("tcp://127.0.0.1:1");
  return placement;
}

// "sync", "async" (with a bound, and weights as differences), "unbounded" (adam, compensated
// delay).
inline Config SmallConfig(const std::string& kind) {
  Config config;
  ConsistencyConfig* consistency = config.mutable_consistency();
  consistency->set_staleness(kind == "sync" ? 0 : kind == "async" ? 2 : -1);
  config.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  if (kind == "async") config.mutable_compression()->mutable_pull()->mutable_delta();
  if (kind == "unbounded") {
    consistency->set_compensation(ConsistencyConfig::DELAY);
    config.mutable_optimizer()->mutable_adam()->set_learning_rate(0.1);
  }
  return config;
}

class SmallShard {
 public:
  explicit SmallShard(const Config& config, bool journal = false)
      : core_(ShardOptions{
            .config = config, .reply_bytes = 256, .held_bytes = 4096, .journal = journal}) {
    InstallModel install;
    install.model = std::make_shared<const ModelSpec>(SmallModel());
    install.placement = std::make_shared<const Placement>(SmallPlacement());
    install.hyper.set_learning_rate(0.1);
    install.hyper.set_weight_decay(0.001);
    Execute(install);
    for (uint32_t worker = 0; worker < kShardWorkers; ++worker) Execute(AdmitWorker{Key(worker)});
    BeginSegmentAt(0);
  }

  static WorkerKey Key(uint32_t worker, uint32_t incarnation = 1) {
    WorkerKey key;
    key.set_worker(worker);
    key.set_incarnation(incarnation);
    return key;
  }

  void Execute(const ShardCommand& command) {
    Require(core_.Execute(command, &out_).ok(), "the shard did not carry out a command");
  }
  void BeginSegmentAt(uint64_t clock) {
    BeginSegment begin;
    begin.segment.set_id(++segments_);
    begin.segment.set_first_clock(clock);
    begin.segment.set_clocks(1u << 30);
    for (uint32_t worker = 0; worker < kShardWorkers; ++worker) begin.segment.add_workers(worker);
    Execute(begin);
  }

  // Returns the shard's answers.
  Outbox Send(Message message) {
    const PeerId from = message.header.worker();
    core_.OnMessage(from, std::move(message), &out_);
    return TakeOut();
  }
  Outbox TakeOut() { return std::exchange(out_, {}); }

  ShardCore& core() { return core_; }

  // Returns all weights, slice after slice.
  std::vector<float> Weights() const {
    std::vector<float> all;
    for (const auto& [slice, bytes] : core_.ShareWeights()) {
      const auto* values = reinterpret_cast<const float*>(bytes.data());
      all.insert(all.end(), values, values + bytes.size() / sizeof(float));
    }
    return all;
  }

 private:
  ShardCore core_;
  Outbox out_;
  uint64_t segments_ = 0;
};

inline bool AllFinite(std::span<const float> values) {
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

// Whether the shard refused a message.
inline bool IsRefusal(const Outbox& out) {
  for (const Outgoing& outgoing : out) {
    if (outgoing.message.header.has_refusal()) return true;
  }
  return false;
}

}  // namespace psgd::fuzz
