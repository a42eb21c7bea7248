// Another server that holds shards of this run, as the coordinator sees it. It may come and go:
// what is asked of its shards meanwhile is UNAVAILABLE.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "server/control/host_stream.h"
#include "server/control/shard_handle.h"
#include "server/durability/shard_parts.h"

namespace psgd {

// Called on the thread of the connection; must not wait.
struct RemoteHostCallbacks {
  std::function<void(uint32_t shard, ShardCut cut)> on_cut;
  std::function<void(QuarantinedWorker worker)> on_quarantine;
  std::function<void(std::vector<TraceSpan> spans)> on_spans;  // may be null
  std::function<void()> on_leaving;
};

// Thread-safe.
class RemoteHost : public std::enable_shared_from_this<RemoteHost> {
 public:
  RemoteHost(uint32_t server, RemoteHostCallbacks callbacks, Log log)
      : server_(server), callbacks_(std::move(callbacks)), log_(std::move(log)) {}

  // Serves a connection until it ends; one before it ends now. `ready`: the shards that it has.
  // Answers are heard while `begin` goes on; its failure ends the connection.
  absl::Status Serve(const std::string& name, const HostSays::Ready& ready, HostStream* stream,
                     const std::function<absl::Status()>& begin);
  // Ends the connection for good. `over`: so is the run.
  void End(bool over);

  // A shard that is there, or will be when it comes back. `address`: that workers know it by.
  std::shared_ptr<ShardHandle> Shard(uint32_t shard, const std::string& address);
  // Has the other server make a shard, which stands still.
  absl::StatusOr<std::shared_ptr<ShardHandle>> Take(uint32_t shard, const ShardImage& image,
                                                    uint32_t starts);
  // It goes these steps, too.
  absl::Status Follow(uint32_t shard, const GivenSteps& given);
  // It went elsewhere, or never came.
  void Drop(uint32_t shard);
  // It stands still no more.
  void GoOn(uint32_t shard);
  // Passes of a secured run. Nothing is lost where it is not there: it gets all when it comes.
  void Admit(const CoordinatorRecord::Pass& pass);
  void Remove(const WorkerKey& worker);

  ServerStatus Status() const;
  bool connected() const;
  bool leaving() const;

 private:
  friend class RemoteShard;
  using Values = std::vector<std::pair<uint32_t, Bytes>>;  // by slice
  struct Pending {
    uint32_t shard = 0;
    bool answered = false;
    std::promise<absl::StatusOr<HostSays::Answer>> answer;
    Values values;
  };
  struct Known {
    std::string address;
    ShardStatus status;
    uint64_t written_order = 0;
  };
  struct Remote {  // a shard
    Known known;
    ArrivingShard arriving;
  };
  using Answer = std::future<absl::StatusOr<HostSays::Answer>>;

  // REQUIRES: mutex_ held.
  absl::Status Away() const;
  static void Resolve(absl::StatusOr<HostSays::Answer> answer, Pending* pending);
  std::pair<uint64_t, Answer> Start(HostTold::Call call);
  // `values`: what came before the answer; null: nothing is asked for.
  absl::StatusOr<HostSays::Answer> Wait(uint64_t call, Answer answer, Duration patience,
                                        Values* values = nullptr);
  absl::StatusOr<HostSays::Answer> Ask(HostTold::Call call, Duration patience,
                                       Values* values = nullptr);
  // A call that wants no answer. One that is away is told what it missed when it comes back.
  void Tell(HostTold::Call call);
  bool Send(const HostTold& told);
  bool SendPart(const ShardPart& part);
  void Heard(HostSays says);
  absl::Status HeardPart(const ShardPart& part);
  void Disconnect(HostStream* stream);
  void HangUp(const HostTold& last);

  const uint32_t server_;
  const RemoteHostCallbacks callbacks_;
  const Log log_;

  std::mutex sending_;        // one at a time; before mutex_
  mutable std::mutex mutex_;  // guards what follows
  HostStream* stream_ = nullptr;
  std::condition_variable disconnected_;
  std::string name_;
  bool leaving_ = false;
  bool silent_ = false;  // it did not answer in time, and was not heard since
  bool ended_ = false;
  Time heard_{};
  uint64_t next_call_ = 1;
  std::map<uint64_t, Pending> pending_;
  std::map<uint32_t, Remote> shards_;
};

}  // namespace psgd
