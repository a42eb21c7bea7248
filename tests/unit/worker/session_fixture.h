// Tests a worker's protocol core. The test itself answers for the shards.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/session_core.h"

namespace psgd {

inline constexpr Duration kResend = std::chrono::milliseconds(100);
inline constexpr Duration kDeadline = std::chrono::seconds(5);

inline Bytes Payload(size_t size) { return Bytes::Adopt(std::vector<std::byte>(size)); }

class SessionTest : public testing::Test {
 protected:
  SessionTest() { Make(); }

  // Slices are dealt to two shards in turn: 0, 2, 4... to shard 0 and 1, 3... to shard 1.
  void Make(size_t window = 1 << 20, size_t fuse = 1 << 20, int slices = 5) {
    Placement placement;
    for (int i = 0; i < slices; ++i) {
      SliceSpec* slice = placement.add_slices();
      slice->set_count(4);
      slice->set_shard(i % 2);
    }
    placement.add_endpoints("tcp://alpha:1");
    placement.add_endpoints("tcp://beta:2");
    SessionOptions options;
    options.key.set_worker(3);
    options.key.set_incarnation(2);
    options.resend = kResend;
    options.deadline = kDeadline;
    options.window_bytes = window;
    options.fuse_bytes = fuse;
    core_ = std::make_unique<SessionCore>(options, placement, now_);
  }

  // Returns all messages that may be sent now, with their shards.
  std::vector<std::pair<PeerId, Message>> Drain() {
    std::vector<std::pair<PeerId, Message>> sent;
    while (auto next = core_->Next()) {
      sent.emplace_back(next->to, *next->message);
      core_->Sent(now_);
    }
    return sent;
  }
  std::vector<Message> DrainTo(PeerId shard) {
    std::vector<Message> sent;
    for (auto& [to, message] : Drain()) {
      if (to == shard) sent.push_back(std::move(message));
    }
    return sent;
  }
  std::vector<uint64_t> SentSeqs(PeerId shard) {
    std::vector<uint64_t> seqs;
    for (const Message& message : DrainTo(shard)) seqs.push_back(message.header.push().seq());
    return seqs;
  }

  static Message From(uint32_t shard) {
    Message message;
    message.header.set_worker(3);
    message.header.set_incarnation(2);
    message.header.set_shard(shard);
    return message;
  }
  void Ack(uint32_t shard, uint64_t next_seq) {
    Message message = From(shard);
    message.header.mutable_push_ack()->set_next_seq(next_seq);
    core_->OnMessage(shard, message, now_);
  }
  void Refuse(uint32_t shard, Refusal::Reason reason, uint64_t next_seq, uint64_t request = 0) {
    Message message = From(shard);
    message.header.mutable_refusal()->set_reason(reason);
    message.header.mutable_refusal()->set_detail("why");
    message.header.mutable_refusal()->set_next_seq(next_seq);
    message.header.mutable_refusal()->set_request(request);
    core_->OnMessage(shard, message, now_);
  }
  void Weights(uint32_t shard, uint64_t request, const std::vector<uint32_t>& slices,
               uint64_t slowest = 0, uint64_t version = 1) {
    Message message = From(shard);
    PullReply* reply = message.header.mutable_pull_reply();
    reply->set_request(request);
    reply->set_slowest_clock(slowest);
    for (uint32_t slice : slices) {
      reply->add_parts()->set_slice(slice);
      reply->mutable_parts()->rbegin()->set_version(version);
      message.payloads.push_back(Payload(16));
    }
    core_->OnMessage(shard, message, now_);
  }
  void PushAll(uint64_t clock, size_t bytes = 16) {
    for (int slice = 4; slice >= 0; --slice) {
      core_->Push(clock, {static_cast<uint32_t>(slice), CODEC_NONE, Payload(bytes)}, now_);
    }
    core_->EndClock(clock, now_);
  }
  static std::vector<uint32_t> Slices(const Message& message) {
    std::vector<uint32_t> slices;
    for (const PushPart& part : message.header.push().parts()) slices.push_back(part.slice());
    return slices;
  }

  Time now_ = std::chrono::hours(1);
  std::unique_ptr<SessionCore> core_;
};

}  // namespace psgd
