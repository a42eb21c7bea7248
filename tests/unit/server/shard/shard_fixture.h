// A shard with a small model, and workers whose messages the test writes.
#pragma once

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/shard/shard_core.h"

namespace psgd {

inline std::span<const float> Floats(const Bytes& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

inline Bytes BytesOf(const std::vector<float>& values) { return Bytes::CopyOf(AsBytes(values)); }

struct FixtureOptions {
  int64_t staleness = 0;
  std::vector<uint32_t> elements = {4, 4};  // one slice for each parameter, all on this shard
  size_t reply_bytes = ShardOptions().reply_bytes;
  size_t state_reply_bytes = ShardOptions().state_reply_bytes;
  size_t held_bytes = 1u << 30;
  size_t open_bytes = kMostUnpacked;
  bool journal = false;
};

// Weights begin as 0, the optimizer is sgd with learning rate 1, pushes are summed. So a weight is
// minus the sum of the applied values.
class ShardFixture {
 public:
  explicit ShardFixture(const FixtureOptions& options = {}, const Config& config = {}) {
    ShardOptions shard;
    shard.config = config;
    shard.config.mutable_consistency()->set_staleness(options.staleness);
    if (!config.consistency().has_reduction()) {
      shard.config.mutable_consistency()->set_reduction(ConsistencyConfig::SUM);
    }
    if (!config.optimizer().has_sgd()) {
      shard.config.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
    }
    shard.reply_bytes = options.reply_bytes;
    shard.state_reply_bytes = options.state_reply_bytes;
    shard.held_bytes = options.held_bytes;
    shard.open_bytes = options.open_bytes;
    shard.journal = options.journal;
    core_ = std::make_unique<ShardCore>(shard);
    auto model = std::make_shared<ModelSpec>();
    auto placement = std::make_shared<Placement>();
    for (size_t i = 0; i < options.elements.size(); ++i) {
      ParameterSpec* parameter = model->add_parameters();
      parameter->set_name(absl::StrCat("p", i));
      parameter->add_shape(options.elements[i]);
      SliceSpec* slice = placement->add_slices();
      slice->set_parameter(static_cast<uint32_t>(i));
      slice->set_count(options.elements[i]);
    }
    model_ = model;
    install_ = {model, placement, nullptr, {}};
    install_.hyper.set_learning_rate(shard.config.optimizer().sgd().learning_rate());
  }

  ShardCore& core() { return *core_; }
  InstallModel& install() { return install_; }
  void Install() { ASSERT_TRUE(Execute(install_).ok()); }

  absl::Status Execute(const ShardCommand& command) { return core_->Execute(command, &out_); }

  static WorkerKey Key(uint32_t worker, uint32_t incarnation = 1) {
    WorkerKey key;
    key.set_worker(worker);
    key.set_incarnation(incarnation);
    return key;
  }
  void Admit(uint32_t worker, uint32_t incarnation = 1) {
    ASSERT_TRUE(Execute(AdmitWorker{Key(worker, incarnation)}).ok());
  }
  void Remove(uint32_t worker, uint32_t incarnation = 1) {
    ASSERT_TRUE(Execute(RemoveWorker{Key(worker, incarnation)}).ok());
  }
  // `steps`: of each worker in a clock; none: 1.
  void Begin(uint64_t first_clock, uint32_t clocks, const std::vector<uint32_t>& workers,
             const std::vector<uint32_t>& steps = {}) {
    BeginSegment begin;
    begin.segment.set_id(++segments_);
    begin.segment.set_first_clock(first_clock);
    begin.segment.set_clocks(clocks);
    begin.segment.mutable_workers()->Add(workers.begin(), workers.end());
    begin.segment.mutable_steps()->Add(steps.begin(), steps.end());
    ASSERT_TRUE(Execute(begin).ok());
  }
  // Installs, admits workers 0..n-1 and begins a long segment.
  void Start(uint32_t workers, const std::vector<uint32_t>& steps = {}) {
    Install();
    std::vector<uint32_t> all;
    for (uint32_t w = 0; w < workers; ++w) {
      Admit(w);
      all.push_back(w);
    }
    Begin(0, 1000, all, steps);
  }

  static Message Header(uint32_t worker, uint32_t incarnation = 1) {
    Message message;
    message.header.set_worker(worker);
    message.header.set_incarnation(incarnation);
    return message;
  }
  // One push of the given slices, each with its values.
  static Message PushOf(uint32_t worker, uint64_t seq, uint64_t clock,
                        const std::vector<std::pair<uint32_t, std::vector<float>>>& parts,
                        bool end = true, uint32_t incarnation = 1) {
    Message message = Header(worker, incarnation);
    Push* push = message.header.mutable_push();
    push->set_seq(seq);
    push->set_clock(clock);
    push->set_end_of_clock(end);
    for (const auto& [slice, values] : parts) {
      push->add_parts()->set_slice(slice);
      message.payloads.push_back(BytesOf(values));
    }
    return message;
  }
  static Message PullOf(uint32_t worker, uint64_t request, uint64_t clock,
                        uint32_t incarnation = 1) {
    Message message = Header(worker, incarnation);
    message.header.mutable_pull()->set_request(request);
    message.header.mutable_pull()->set_clock(clock);
    return message;
  }
  static Message SaveOf(uint32_t worker, uint64_t seq, uint64_t checkpoint,
                        const std::vector<std::pair<uint32_t, std::vector<float>>>& states,
                        bool last = true) {
    Message message = Header(worker);
    SaveState* save = message.header.mutable_save_state();
    save->set_seq(seq);
    save->set_checkpoint(checkpoint);
    save->set_last(last);
    for (const auto& [slice, values] : states) {
      save->add_slices(slice);
      message.payloads.push_back(BytesOf(values));
    }
    return message;
  }

  // Returns what the shard sends in reaction. A worker's peer id is its number.
  std::vector<Outgoing> Send(Message message) {
    const PeerId from = message.header.worker();
    core_->OnMessage(from, std::move(message), &out_);
    return TakeOut();
  }
  // Returns what the shard sent because of commands.
  std::vector<Outgoing> TakeOut() { return std::exchange(out_, {}); }

  // Expects one acknowledgement and returns its next_seq.
  uint64_t Acknowledged(Message message) {
    const auto out = Send(std::move(message));
    if (out.empty() || !out[0].message.header.has_push_ack()) {
      ADD_FAILURE() << (out.empty() ? "no answer" : out[0].message.header.DebugString());
      return 0;
    }
    return out[0].message.header.push_ack().next_seq();
  }
  Refusal Refused(Message message) {
    const auto out = Send(std::move(message));
    if (out.empty() || !out[0].message.header.has_refusal()) {
      ADD_FAILURE() << (out.empty() ? "no answer" : out[0].message.header.DebugString());
      return {};
    }
    return out[0].message.header.refusal();
  }

  std::vector<float> Weights(uint32_t slice) const {
    for (const auto& [id, bytes] : core_->ShareWeights()) {
      if (id == slice) return {Floats(bytes).begin(), Floats(bytes).end()};
    }
    return {};
  }

 private:
  std::unique_ptr<ShardCore> core_;
  std::shared_ptr<const ModelSpec> model_;
  InstallModel install_;
  Outbox out_;
  uint64_t segments_ = 0;
};

using Values = std::vector<float>;

}  // namespace psgd
