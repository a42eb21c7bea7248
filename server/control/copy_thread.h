// One copy of a shard in production: its core, its port for workers while it leads, and the thread
// that owns both.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/latency.h"
#include "common/log.h"
#include "net/transport.h"
#include "proto/run.pb.h"
#include "server/cluster/copy_core.h"
#include "server/control/shard_trace.h"
#include "server/control/stall_report.h"
#include "server/shard/pull_times.h"

namespace psgd {

// TransportOptions::send_queue_bytes of a copy's port. What is in the port's queue cannot be
// overtaken, so a longer queue keeps front layers behind others. This one holds three messages with
// weights: more than a link carries between two looks of the copy's thread.
inline constexpr size_t kPortQueueBytes = (12u << 20) + (64u << 10);

// All callbacks run on the copy's thread and must not wait. OnCopy calls `on_send`, too.
struct CopyCallbacks {
  // The copy's state: at each change, and about twice a second.
  std::function<void(CopyState)> on_state;
  std::function<void(uint32_t shard, CopyCore::OrderDone)> on_order;
  std::function<void(CopySend)> on_send;  // to a copy on another server
  // The cut of each checkpoint; only a copy that leads makes one.
  std::function<void(uint32_t shard, ShardCut)> on_cut;
  std::function<void(QuarantinedWorker)> on_quarantine;
  // An image for the journal; SaveImage must follow.
  std::function<void(uint32_t shard, std::shared_ptr<const ShardImage>)> on_image;
  // The transport has the answers. May be null.
  std::function<void()> on_sent;
  // When the shard took in each push of the first steps. May be null.
  std::function<void(std::vector<TraceSpan>)> on_spans;
  uint64_t trace_steps = 0;
};

struct CopyThreadOptions {
  CopyOptions core;
  // Opens the port for workers, while the copy leads.
  std::function<absl::StatusOr<std::unique_ptr<Endpoint>>()> listen;
  // Turns a port's address into the address that workers are told.
  std::function<std::string(const std::string&)> advertised;
  CopyCallbacks callbacks;
  std::optional<int> stays_on;                         // the thread's processor core; nullopt: any
  std::vector<int> cores;                              // of the process, if `stays_on` is set
  Duration write_patience = std::chrono::seconds(30);  // with a small image
  Log log = NullLog();
};

// Thread-safe.
class CopyThread {
 public:
  // `shard`: read from disk, or fresh; null: this server has no data of the shard yet.
  CopyThread(CopyThreadOptions options, std::unique_ptr<DurableShard> shard);
  ~CopyThread();

  // Makes the copy lead or follow, as `assigned` says. `server`: this server's number. REQUIRES:
  // assigned.epoch() > 0.
  void Have(const AssignedCopy& assigned, uint32_t server);
  void Execute(ShardCommand command, uint64_t number, uint64_t epoch);
  // Waits until an image is written, and keeps saying meanwhile that this takes its time.
  void OnCopy(uint32_t from, CopyMessage message);
  // A part of a message from the leading copy has come; or the leading copy is reached over a new
  // link.
  void OnPart();
  void OnReached();
  // A following copy has a new link to this one. Waits until the shard's thread has called
  // `take_link`; what it sends from then on goes over that link.
  void OnFollowerReached(uint32_t server, const std::function<void()>& take_link);
  void OnFollowerGone(uint32_t server);
  void CheckpointDone(uint64_t checkpoint);
  // Writes the image that on_image gave, on the caller's thread.
  absl::Status SaveImage(const std::shared_ptr<const ShardImage>& image);
  // UNAVAILABLE: the copy does not lead.
  absl::Status Weights(
      const std::function<absl::Status(uint32_t slice, const Bytes& values)>& take);
  // Ends the thread, and closes the port. Later calls do nothing. The destructor closes the
  // journal.
  void Stop();

 private:
  using Task = std::function<void()>;

  void Run();
  // False: the thread has ended. Do waits for the task.
  bool Post(Task task);
  bool Do(const Task& task);
  void RunTasks();
  void OpenOrClosePort();
  void WaitWhileSaving();
  // Waits for messages of workers and for tasks, and takes in a batch that is written together.
  void Receive();
  // Writes the steps, and releases the answers.
  void Commit();
  void SendAll(Outbox* out);
  // False: the peer's queue is full.
  bool SendNow(PeerId to, const Message& message);
  void SendWaiting();
  void TellState();
  CopyState State() const;
  ShardStatus Status() const;
  // Why the copy cannot go on; empty: it can.
  const std::string& Trouble() const { return port_trouble_.empty() ? stalled_ : port_trouble_; }
  void ReportStall();
  void ReportStrangers();

  const CopyThreadOptions options_;

  // Owned by the copy's thread.
  CopyCore core_;
  std::unique_ptr<Endpoint> endpoint_;  // set under tasks_mutex_; null: the copy does not lead
  std::string port_trouble_;
  // Answers whose peer's queue is full, in the order in which they will leave.
  std::map<PeerId, std::deque<Message>> waiting_;
  Time looked_for_strangers_{};
  uint64_t logged_malformed_ = 0, logged_turned_away_ = 0;
  StallReport stalls_;
  std::string stalled_;             // why the journal first could not be written, while that recurs
  CountHistogram journal_latency_;  // common/latency.h
  PullTimes pull_times_;
  std::optional<ShardTrace> trace_;
  // What was told last: the core's state, the port and the trouble.
  CopyState told_;
  std::string told_port_, told_trouble_;
  Time told_at_{};

  std::atomic<bool> stopped_{false};  // set under tasks_mutex_
  std::mutex tasks_mutex_;            // guards what follows
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool saving_ = false;  // an image
  std::thread thread_;
};

}  // namespace psgd
