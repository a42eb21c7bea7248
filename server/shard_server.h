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
#include "server/durable_shard.h"
#include "server/pull_times.h"
#include "server/shard_trace.h"

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
class ShardServer {
 public:
  ShardServer(uint32_t index, std::unique_ptr<DurableShard> shard,
              std::unique_ptr<Endpoint> endpoint, ShardCallbacks callbacks, Log log);
  ~ShardServer();

  const std::string& address() const { return address_; }
  // Waits until the shard has carried it out, and written it down if it can.
  absl::Status Execute(const ShardCommand& command, uint64_t number);
  // The checkpoint is written, or was given up.
  void CheckpointDone(uint64_t checkpoint);
  // Writes the image that on_image gave.
  absl::Status SaveImage(const ShardImage& image);
  // Orders up to this one are not needed again, whatever happens.
  uint64_t written_order() const { return written_order_; }
  std::vector<std::pair<uint32_t, Bytes>> ShareWeights();
  // What a follower begins with; `connect` is called with the number of its last entry, and every later
  // step comes after.
  absl::StatusOr<FollowerStart> BeginFollower(const std::function<void(uint64_t last)>& connect);
  ShardStatus Status();

 private:
  using Task = std::function<void()>;
  using QueuedTask = std::pair<Task, std::shared_ptr<std::promise<void>>>;

  void Run();
  // Runs `task` on the shard's thread and waits for it.
  void Do(Task task);
  // They are done once what they changed is written down.
  std::vector<std::shared_ptr<std::promise<void>>> RunTasks();
  // Receives what is there, as much as is good to write down together.
  void ReceiveSome();
  // Writes down, and lets go.
  void CommitAll(Outbox* out);
  void ReportTrouble();
  void SendAll(Outbox* out);
  void SendWaiting();

  const uint32_t shard_;
  const std::string address_;
  const ShardCallbacks callbacks_;
  const Log log_;

  // Owned by the shard's thread.
  std::unique_ptr<Endpoint> endpoint_;
  const std::unique_ptr<DurableShard> durable_;
  std::map<PeerId, std::deque<Message>> waiting_;  // replies whose peer's queue is full
  uint64_t logged_malformed_ = 0;
  bool logged_stall_ = false;
  uint64_t logged_turned_away_ = 0;
  CountHistogram journal_latency_;  // common/latency.h
  PullTimes pull_times_;
  std::optional<ShardTrace> trace_;

  std::atomic<uint64_t> written_order_{0};
  std::atomic<bool> stop_{false};
  std::mutex tasks_mutex_;  // guards tasks_
  std::deque<QueuedTask> tasks_;
  std::thread thread_;
};

}  // namespace psgd
