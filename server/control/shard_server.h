// Runs one shard: a thread that alone owns it and its endpoint.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "common/log.h"
#include "net/transport.h"
#include "proto/control.pb.h"
#include "server/control/shard_handle.h"
#include "server/control/shard_trace.h"
#include "server/control/stall_report.h"
#include "server/durability/durable_shard.h"
#include "server/shard/pull_times.h"

namespace psgd {

// All are called on the shard's thread and must not wait.
struct ShardCallbacks {
  // Each finished checkpoint's cut.
  std::function<void(uint32_t shard, ShardCut cut)> on_cut;
  // A worker that it hears no more.
  std::function<void(QuarantinedWorker worker)> on_quarantine;
  // An image for the journal; SaveImage must follow.
  std::function<void(uint32_t shard, ShardImage image)> on_image;
  // What was to be said is with the transport; may be null.
  std::function<void()> on_sent;
  // What became of each push of the first steps; empty: nobody asks.
  std::function<void(std::vector<TraceSpan> spans)> on_spans;
  uint64_t trace_steps = 0;
};

// Thread-safe.
class ShardServer final : public ShardHandle {
 public:
  // `address`: that workers are told.
  ShardServer(uint32_t index, std::string address, std::unique_ptr<DurableShard> shard,
              std::unique_ptr<Endpoint> endpoint, ShardCallbacks callbacks, Log log);
  ~ShardServer() override;

  std::string address() const override { return address_; }
  std::future<absl::Status> Execute(const ShardCommand& command, uint64_t number) override;
  uint64_t written_order() const override { return written_order_; }
  // Its journal has the entries up to this one.
  uint64_t written_entries() const { return written_entries_; }
  void CheckpointDone(uint64_t checkpoint) override;
  absl::Status Weights(
      const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take) override;
  ShardStatus Status() override;
  absl::StatusOr<ShardImage> Give() override;
  absl::StatusOr<GivenSteps> GiveSince(uint64_t entry, bool last) override;
  absl::Status Follow(const GivenSteps& given) override;
  void KeepOn() override;

  // Writes the image that on_image gave.
  absl::Status SaveImage(const ShardImage& image);
  // What a follower begins with; `connect` is called with the number of its last entry, and every
  // later step comes after.
  absl::StatusOr<FollowerStart> BeginFollower(const std::function<void(uint64_t last)>& connect);
  // Ends its thread and lets go of its endpoint and its journal; nothing can be asked of it after
  // that.
  void Stop();

 private:
  using Task = std::function<void()>;
  using Done = std::shared_ptr<std::promise<bool>>;

  void Run();
  // Has the shard's thread run `task`, and write down what it changed; false: it has stopped.
  std::future<bool> Start(Task task);
  bool Do(Task task) { return Start(std::move(task)).get(); }
  // They are done once what they changed is written down.
  std::vector<Done> RunTasks();
  // Receives what is there, as much as is good to write down together.
  void ReceiveSome();
  // Writes down, and lets go.
  void CommitAll(Outbox* out);
  void ReportStall();
  void ReportTrouble();
  void SendAll(Outbox* out);
  void SendWaiting();

  const uint32_t shard_;
  const std::string address_;
  const ShardCallbacks callbacks_;
  const Log log_;

  // Owned by the shard's thread.
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<DurableShard> durable_;
  std::map<PeerId, std::deque<Message>> waiting_;  // replies whose peer's queue is full
  uint64_t logged_malformed_ = 0;
  StallReport stalls_;
  uint64_t logged_turned_away_ = 0;
  CountHistogram journal_latency_;  // common/latency.h
  PullTimes pull_times_;
  std::optional<ShardTrace> trace_;

  std::atomic<uint64_t> written_order_{0};
  std::atomic<uint64_t> written_entries_{0};
  std::atomic<bool> stop_{false};
  std::mutex tasks_mutex_;  // guards what follows
  std::deque<std::pair<Task, Done>> tasks_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace psgd
