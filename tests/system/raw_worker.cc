#include "tests/system/raw_worker.h"

#include <gtest/gtest.h>

#include <thread>

#include "net/wire_format.h"

namespace psgd {

RawWorker::RawWorker(const std::string& server)
    : control_({.server = server,
                .deadline = Milliseconds(30000),
                .interrupted = {},
                .credentials = {}}) {
  JoinRequest join;
  join.set_name("raw");
  join.set_device("test");
  join.set_protocol(kProtocolVersion);
  const auto reply = control_.Join(join);
  EXPECT_TRUE(reply.ok()) << reply.status();
  if (!reply.ok()) return;
  key_ = reply->key();
  config_ = reply->config();
}

ModelSpec RawWorker::ModelOf(const std::string& server) {
  ControlClient control(
      {.server = server, .deadline = Milliseconds(30000), .interrupted = {}, .credentials = {}});
  ModelSpec model;
  EXPECT_TRUE(control
                  .Weights([&](const WeightsChunk& chunk) {
                    if (chunk.has_model()) model = chunk.model();
                    return absl::OkStatus();
                  })
                  .ok());
  return model;
}

void RawWorker::Register(const ModelSpec& model, uint64_t batches_per_epoch) {
  RegisterRequest request;
  *request.mutable_key() = key_;
  *request.mutable_model() = model;
  request.set_batches_per_epoch(batches_per_epoch);
  request.set_train_samples(static_cast<uint64_t>(config_.data().batch()) * batches_per_epoch);
  const auto reply = control_.Register(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  placement_ = reply->placement();
  shards_.resize(static_cast<size_t>(placement_.endpoints_size()));
  TransportOptions options;
  options.send_queue_messages = 4;  // messages must wait at the server
  auto transport = MakeTransport(config_.cluster().transport(), options);
  ASSERT_TRUE(transport.ok()) << transport.status();
  transport_ = *std::move(transport);
  auto endpoint =
      transport_->Connect({placement_.endpoints().begin(), placement_.endpoints().end()});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  endpoint_ = *std::move(endpoint);
}

void RawWorker::AwaitSegment() {
  NextSegmentRequest request;
  *request.mutable_key() = key_;
  request.set_first(true);
  while (true) {
    const auto reply = control_.NextSegment(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_NE(reply->kind(), NextSegmentReply::DONE) << reply->reason();
    if (reply->kind() == NextSegmentReply::RUN) {
      for (Shard& shard : shards_) shard.clock = reply->segment().first_clock();
      return;
    }
    std::this_thread::sleep_for(Milliseconds(std::max<int64_t>(1, reply->wait_ms())));
  }
}

Message RawWorker::Header(uint32_t shard) const {
  Message message;
  message.header.set_worker(key_.worker());
  message.header.set_incarnation(key_.incarnation());
  message.header.set_shard(shard);
  return message;
}

bool RawWorker::Push(uint32_t shard, float value) {
  Message message = Header(shard);
  psgd::Push* push = message.header.mutable_push();
  push->set_seq(shards_[shard].seq);
  push->set_clock(shards_[shard].clock + 1);
  push->set_end_of_clock(true);
  for (int id = 0; id < placement_.slices_size(); ++id) {
    if (placement_.slices(id).shard() != shard) continue;
    push->add_parts()->set_slice(static_cast<uint32_t>(id));
    message.payloads.push_back(
        Bytes::CopyOf(AsBytes(std::vector<float>(placement_.slices(id).count(), value))));
  }
  if (!endpoint_->Send(shard, message).ok()) return false;
  ++shards_[shard].seq;
  ++shards_[shard].clock;
  return true;
}

bool RawWorker::Pull(uint32_t shard) {
  Message message = Header(shard);
  message.header.mutable_pull()->set_request(++request_);
  message.header.mutable_pull()->set_clock(0);
  return endpoint_->Send(shard, message).ok();
}

void RawWorker::Listen() {
  constexpr int kMost = 100;
  for (int i = 0; i < kMost; ++i) {
    const auto received = endpoint_->Receive(Milliseconds(i == 0 ? 10 : 0));
    if (!received) return;
    const DataHeader& header = received->message.header;
    if (header.has_push_ack()) {
      Shard& shard = shards_[header.shard()];
      shard.absorbed = std::max(shard.absorbed, header.push_ack().next_seq() - 1);
    } else if (header.has_refusal()) {
      ++refused_;
      refusals_ += header.refusal().detail() + "\n";
    }
  }
}

}  // namespace psgd
