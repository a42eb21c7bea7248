// A server of one run with one shard, in this process: CoordinatorCore and ShardCore behind real
// sockets. Tests make it answer late, or with an error.
#pragma once

#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/program_state.h"
#include "experiment/config/config_yaml.h"
#include "net/transport.h"
#include "proto/control.grpc.pb.h"
#include "server/coordinator/coordinator_core.h"
#include "server/shard/shard_core.h"

namespace psgd {

class SmallServer : public Control::Service {
 public:
  // `more`: lines of the config.
  explicit SmallServer(const std::string& more = "", int workers = 1)
      : config_(ResolveDefaults(*ParseConfig(
            absl::StrCat("name: small\nmodel: client\ndata: {batch: 4}\ncluster: {shards: 1, "
                         "deadline: 5s, lease: 2s, workers: ",
                         workers, "}\n", more),
            "test"))),
        core_({.config = config_}),
        shard_({.shard = 0, .config = config_}),
        transport_(*MakeTransport(config_.cluster().transport(), {})),
        endpoint_(*transport_->Listen("tcp://127.0.0.1:0")) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    builder.SetMaxReceiveMessageSize(8 << 20);  // parts of first weights take 4 MiB
    server_ = builder.BuildAndStart();
    thread_ = std::thread([this] { Serve(); });
  }
  ~SmallServer() override {
    ending_ = true;
    thread_.join();
    server_->Shutdown();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  ShardStats shard_stats() {
    std::lock_guard lock(mutex_);
    return shard_.stats();
  }
  std::vector<float> Weights() {
    std::lock_guard lock(mutex_);
    std::vector<float> weights;
    for (const auto& [slice, values] : shard_.ShareWeights()) {
      const size_t before = weights.size();
      weights.resize(before + values.size() / sizeof(float));
      std::memcpy(weights.data() + before, values.data(), values.size());
    }
    return weights;
  }
  void Drain() {
    std::lock_guard lock(mutex_);
    Effects effects;
    core_.Drain({}, &effects);
  }

  // So many calls of this kind fail from now on.
  std::atomic<int> refused_registrations{0}, refused_weights{0};
  // A worker that joins is to load a state, of which the shard has a part.
  std::atomic<bool> has_half_a_state{false};
  // How long each message waits at the shard.
  std::atomic<int64_t> shard_delay_ms{0};
  std::atomic<int> registrations{0}, segments_asked{0};

 private:
  template <typename Call>
  grpc::Status Answer(const Call& call) {
    std::lock_guard lock(mutex_);
    Effects effects;
    const absl::Status status = call(&effects);
    for (const ShardCommand& command : effects.commands) {
      EXPECT_TRUE(shard_.Execute(command, &out_).ok());
    }
    if (core_.checkpoint_under_way()) {
      Effects none;
      core_.CheckpointDone(core_.checkpoint_under_way()->checkpoint, absl::OkStatus(), &none);
    }
    return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
  }
  template <typename Reply>
  static absl::Status Give(absl::StatusOr<Reply> made, Reply* reply) {
    if (made.ok()) *reply = *std::move(made);
    return made.status();
  }
  static bool Takes(std::atomic<int>* count) { return *count > 0 && (*count)-- > 0; }

  grpc::Status Join(grpc::ServerContext*, const JoinRequest* request, JoinReply* reply) override {
    return Answer(
        [&](Effects* effects) { return Give(core_.Join(*request, SteadyNow(), effects), reply); });
  }
  grpc::Status Register(grpc::ServerContext*, const RegisterRequest* request,
                        RegisterReply* reply) override {
    ++registrations;
    if (Takes(&refused_registrations)) return {grpc::StatusCode::FAILED_PRECONDITION, "not now"};
    return Answer([&](Effects* effects) {
      return Give(core_.Register(*request, {endpoint_->address()}, SteadyNow(), effects), reply);
    });
  }
  grpc::Status GiveWeights(grpc::ServerContext*, const GiveWeightsRequest* request,
                           GiveWeightsReply*) override {
    if (Takes(&refused_weights)) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "it must register before"};
    }
    return Answer([&](Effects*) { return core_.GiveWeights(*request, SteadyNow()); });
  }
  grpc::Status NextSegment(grpc::ServerContext*, const NextSegmentRequest* request,
                           NextSegmentReply* reply) override {
    ++segments_asked;
    return Answer([&](Effects* effects) {
      const absl::Status status = Give(core_.NextSegment(*request, SteadyNow(), effects), reply);
      if (has_half_a_state && request->first()) reply->set_load_state(true);
      return status;
    });
  }
  grpc::Status Evaluated(grpc::ServerContext*, const EvaluatedRequest* request,
                         EvaluatedReply*) override {
    return Answer(
        [&](Effects* effects) { return core_.Evaluated(*request, SteadyNow(), effects); });
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const HeartbeatRequest* request,
                         HeartbeatReply* reply) override {
    return Answer([&](Effects*) { return Give(core_.Heartbeat(*request, SteadyNow()), reply); });
  }
  grpc::Status Leave(grpc::ServerContext*, const LeaveRequest* request, LeaveReply*) override {
    return Answer([&](Effects* effects) { return core_.Leave(*request, SteadyNow(), effects); });
  }

  static void AddHalfAState(Outgoing* outgoing) {
    StateReply* reply = outgoing->message.header.mutable_state_reply();
    const std::vector<std::byte> state(2 * kProgramPartBytes);
    const auto parts = SplitProgramState(Bytes::CopyOf(state));
    reply->add_slices(parts[0].first);
    reply->set_total(reply->total() + 1);
    outgoing->message.payloads.push_back(parts[0].second);
  }

  void Serve() {
    while (!ending_) {
      auto received = endpoint_->Receive(Milliseconds(2));
      if (received) std::this_thread::sleep_for(Milliseconds(shard_delay_ms));
      std::lock_guard lock(mutex_);
      if (received) shard_.OnMessage(received->from, std::move(received->message), &out_);
      for (Outgoing& outgoing : std::exchange(out_, {})) {
        if (has_half_a_state && outgoing.message.header.has_state_reply()) AddHalfAState(&outgoing);
        (void)endpoint_->Send(outgoing.to, outgoing.message);
      }
    }
  }

  const Config config_;
  std::mutex mutex_;  // guards core_, shard_ and out_
  CoordinatorCore core_;
  ShardCore shard_;
  Outbox out_;
  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<Endpoint> endpoint_;  // the thread's, but for its address
  std::atomic<bool> ending_{false};
  std::thread thread_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace psgd
