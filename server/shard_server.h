// Runs one ShardCore: a thread that alone owns the shard and its endpoint.
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
#include "server/shard_core.h"

namespace psgd {

// Thread-safe.
class ShardServer {
 public:
  // What it has for the coordinator, on the shard's thread; they must not wait.
  struct Callbacks {
    std::function<void(uint32_t shard, ShardCut cut)> on_cut;
    std::function<void(QuarantinedWorker worker)> on_quarantine;
  };
  ShardServer(ShardOptions options, std::unique_ptr<Endpoint> endpoint, Callbacks callbacks, Log log);
  ~ShardServer();

  const std::string& address() const { return address_; }
  // Waits until the shard has carried it out.
  absl::Status Execute(const ShardCommand& command);
  std::vector<std::pair<uint32_t, Bytes>> ShareWeights();
  ShardStatus Status();

 private:
  using Task = std::function<void(Outbox*)>;

  void Run();
  // Runs `task` on the shard's thread and waits for it.
  void Do(Task task);
  void RunTasks(Outbox* out);
  void SendAll(Outbox* out);
  void SendWaiting();

  const uint32_t shard_;
  const std::string address_;
  const Callbacks callbacks_;
  const Log log_;

  // Owned by the shard's thread.
  std::unique_ptr<Endpoint> endpoint_;
  ShardCore core_;
  std::map<PeerId, std::deque<Message>> waiting_;  // replies whose peer's queue is full
  uint64_t logged_malformed_ = 0;

  std::atomic<bool> stop_{false};
  std::mutex tasks_mutex_;  // guards tasks_
  std::deque<std::pair<Task, std::shared_ptr<std::promise<void>>>> tasks_;
  std::thread thread_;
};

}  // namespace psgd
