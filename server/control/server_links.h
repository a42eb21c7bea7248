// The links from the other servers of a run: what the server that leads the run tells them. A new
// link begins with the workers' passes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "common/clock.h"
#include "common/status.h"
#include "net/allow_list.h"
#include "proto/journal.pb.h"
#include "proto/peers.pb.h"
#include "server/control/peer_service.h"
#include "server/control/task_queue.h"

namespace psgd {

// Thread-safe.
class ServerLinks {
 public:
  // `members`: of a secured run; null: nobody needs a pass.
  explicit ServerLinks(std::shared_ptr<AllowList> members) : members_(std::move(members)) {}

  // Says `begins` with the passes, and hears the link's messages until the link ends. Returns its
  // number. UNAVAILABLE: Stop was called.
  absl::StatusOr<uint64_t> Serve(LeaderSays begins, ServingStream* stream,
                                 const std::function<void(uint64_t link, ServerSays)>& heard);
  // Does not wait. Nobody hears it if the link is gone.
  void Tell(uint64_t link, const LeaderSays& says);
  void TellAll(const LeaderSays& says);

  void Admit(const CoordinatorRecord::Pass& pass);
  void Expel(const WorkerKey& worker);

  // Ends the streams, and refuses later links.
  void Stop();
  void WaitUntilNone(Duration limit);

 private:
  struct Link {
    ServingStream* stream = nullptr;
    TaskQueue* queue = nullptr;

    void Tell(const LeaderSays& says) const {
      queue->Post([to = stream, says] { return to->Send(says); });
    }
  };

  const std::shared_ptr<AllowList> members_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable gone_;
  std::map<uint64_t, Link> links_;
  uint64_t next_ = 1;
  std::map<uint32_t, CoordinatorRecord::Pass> passes_;  // by worker
  bool stopped_ = false;
};

}  // namespace psgd
