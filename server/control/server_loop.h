// A whole server in production: its ServerCore, the thread that drives the core, and the parts that
// carry out the core's effects: copies, links to other servers, the run store and the writer of
// checkpoints.
//
// The locks of server/control, in the order in which a thread takes them:
//   - CopySet, then CopyThread; or CopySet, then LeaderLink, then TaskQueue
//   - ServerLinks, then TaskQueue
//   - ServerLoop, then StandingBoard
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/log.h"
#include "net/credentials.h"
#include "net/run_store.h"
#include "net/transport_security.h"
#include "server/cluster/held_cuts.h"
#include "server/cluster/server_core.h"
#include "server/control/checkpoint_writer.h"
#include "server/control/copy_set.h"
#include "server/control/leader_link.h"
#include "server/control/peer_service.h"
#include "server/control/run_weights.h"
#include "server/control/server_links.h"
#include "server/control/server_standing.h"
#include "server/control/task_queue.h"
#include "server/durability/checkpoint_store.h"
#include "server/durability/failpoint.h"
#include "server/durability/shard_parts.h"

namespace psgd {

struct ServerLoopOptions {
  // ServerLoop fills in `run_id`, `on_disk`, `may_lead`, `self` (but not its address) and the
  // members for a secured run.
  ServerCoreOptions core;
  CopySetOptions copies;  // ServerLoop fills in `callbacks`, `silence`, `run_id` and `security`
  ServerRecord record;    // identity of this server and its run
  std::string name;       // this server's name, for people
  double link = 0;        // bytes a second, each way, of this machine's link; 0: not known
  std::string run_dir;
  std::string checkpoint_dir;
  // Null: this server does not reach the run store, and cannot lead the run.
  std::shared_ptr<RunStore> store;
  std::string leader;  // without a store: the control-plane address of the run's leader
  std::shared_ptr<FailpointPlan> failpoint;  // for tests; null: there is none
  Log log = NullLog();
  // Called on the loop's thread for what happens while this server leads the run. They must not
  // call ServerLoop. May be null.
  std::function<void(const std::string&)> on_news;
  std::function<void(const EvalResult&)> on_evaluation;
  std::function<void(const CodecChoices&)> on_choices;
  std::function<void(const CheckpointInfo&)> on_checkpoint;
  // Spans of workers and shards, in the first trace_steps steps. `server`: the server that has the
  // shards.
  std::function<void(uint32_t server, std::vector<TraceSpan>)> on_spans;
  uint64_t trace_steps = 0;
};

// The index of a request's type in ControlRequest, and of its reply in ControlReply.
template <typename Request, size_t at = 0>
constexpr size_t PlaceOfRequest() {
  if constexpr (std::is_same_v<std::variant_alternative_t<at, ControlRequest>, Request>) {
    return at;
  } else {
    return PlaceOfRequest<Request, at + 1>();
  }
}
template <typename Request>
using ReplyTo = std::variant_alternative_t<PlaceOfRequest<Request>(), ControlReply>;

// Thread-safe.
class ServerLoop final : public PeerHandler {
 public:
  static absl::StatusOr<std::unique_ptr<ServerLoop>> Start(ServerLoopOptions options);
  ~ServerLoop() override;

  // Waits for the answer. UNAVAILABLE: another server leads the run, or this server ends.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> Call(const Request& request) {
    PSGD_ASSIGN_OR_RETURN(ControlReply reply, Ask(request));
    return std::get<ReplyTo<Request>>(std::move(reply));
  }
  // Sends the model and its weights, from all servers that lead shards.
  absl::Status Weights(const std::function<absl::Status(const WeightsChunk&)>& send);
  // Ends the threads and streams. Later requests get no answer.
  void Stop();
  // Moves this server's copies to other servers; then the server ends. A server that leads the run
  // stays.
  void Leave();
  // The run's results are saved. REQUIRES: this server leads the run, and the run is trained.
  void Close();
  // Waits until the other servers know how the run ended, for two seconds at most.
  void WaitUntilTold();
  // Tells the other servers that the run is closed, and frees its name in the store.
  absl::Status FreeRun();

  StandingBoard& standing() { return standing_; }
  // How many samples the run had when it was resumed.
  uint64_t samples_before() const { return samples_before_; }
  const std::string& address() const { return options_.core.self.address(); }

  CallGuard& guard() override { return guard_; }
  absl::Status Serve(const ServerSays::Hello& hello, ServingStream* stream) override;
  absl::Status Follow(const FollowingSays::Hello& hello, FollowingStream* stream) override;
  absl::Status ShardWeights(
      const ShardWeightsRequest& request,
      const std::function<absl::Status(const ShardWeightsChunk&)>& send) override;

 private:
  using Event = std::function<void(Time now, ServerEffects* effects)>;

  explicit ServerLoop(ServerLoopOptions options);
  absl::Status Open();
  absl::StatusOr<ControlReply> Ask(ControlRequest request);
  RunWeights WeightsOfRun() const;
  std::shared_ptr<const TransportSecurity> DataSecurity() const;
  void Post(Event event);
  // Does the work on the queue's thread, and then hands its result over on the loop's thread.
  template <typename Work, typename Then>
  void On(TaskQueue* queue, Work work, Then then);
  // Answers all calls that wait with this error.
  void FailAsked(const absl::Status& why);
  void Run();
  void CarryOut(ServerEffects effects);
  CopyCallbacks Callbacks();
  RunLink::Options LinkOptions();
  void OnBegin(const LeaderSays::Begin& begin);
  void OnOrder(const LeaderSays::Order& order);
  void HeardOf(uint64_t link, ServerSays says, ShardPartReader* parts);
  void TellSpans(std::vector<TraceSpan> spans);

  // One function for each effect.
  void Do(const effect::HaveCopy& have);
  void Do(const effect::DropCopy& drop);
  void Do(const effect::CheckpointDone& done);
  void Do(const effect::SendState& send);
  void Do(const effect::SendAssignment& send);
  void Do(const effect::SendOrder& send);
  void Do(const effect::Refuse& refuse);
  void Do(const effect::ReadStore& read);
  void Do(const effect::WriteStore& write);
  void Do(const effect::KeepLease& keep);
  void Do(const effect::Answer& answer);
  void Do(const effect::SendPart& part);
  void Do(const effect::WritePart& part);
  void Do(const effect::SealCheckpoint& seal);
  void Do(const effect::DiscardParts& parts);
  void Do(const effect::Admit& admit);
  void Do(const effect::Expel& expel);
  void Do(const effect::Observed& observed);
  void Do(const effect::News& news);
  void Do(const effect::End& end);

  const ServerLoopOptions options_;
  const CheckpointStore checkpoints_;
  const std::shared_ptr<AllowList> members_;  // of a secured run
  CallGuard guard_;
  ServerLinks links_;
  StandingBoard standing_;
  std::unique_ptr<CopySet> copies_;
  std::unique_ptr<RunLink> run_link_;

  // Owned by the loop's thread.
  std::unique_ptr<ServerCore> core_;
  std::string told_leader_;  // leader's address, as another server or the options told it
  bool led_ = false;         // whether it led the run at the last look
  Duration clock_ahead_{};   // the leader's clock minus this server's clock
  HeldCuts cuts_;

  CheckpointWriter writer_;  // owned by the disk's thread

  std::atomic<uint64_t> samples_before_{0};
  mutable std::mutex mutex_;         // guards what follows
  std::condition_variable changed_;  // wakes the loop
  std::deque<Event> events_;
  std::vector<CopyState> copy_states_;  // reports of copies that the loop did not take yet
  std::map<uint64_t, std::promise<absl::StatusOr<ControlReply>>> asked_;
  uint64_t next_request_ = 1;
  bool stopping_ = false;

  // Threads for calls that may wait: to the run store, for the lease in the store, to the disk, and
  // for copies that end.
  TaskQueue store_, lease_, disk_, drops_;
  std::thread thread_;
};

}  // namespace psgd
