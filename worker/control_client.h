// The worker's (and ps-ctl's) calls to the coordinator. Hides gRPC: only the .cc includes it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "net/credentials.h"
#include "proto/control.pb.h"

namespace psgd {

struct ControlClientOptions {
  std::string server;  // HOST:PORT, or several with commas
  // Where the run's servers are by now, the one that leads first; asked when one does not answer.
  // Null: nobody knows better than they.
  std::function<absl::StatusOr<std::vector<std::string>>()> find = nullptr;
  // A call fails when it, and no other call either, has had no answer for so long; until
  // SetDeadline.
  Duration deadline = Milliseconds(60000);
  // Asked while a call waits, from any thread that calls: a failure ends the call. Leave is only
  // ended between attempts.
  std::function<absl::Status()> interrupted;
  // Null: the server is to be one that asks for none.
  std::shared_ptr<const Credentials> credentials;
  // Told once, in under two seconds, if no server answers the first call: which address, and how
  // long the call goes on. Null: nobody is told.
  std::function<void(const std::string&)> on_wait = nullptr;
};

// HOST:PORT, with a port from 1 to 65535; several with commas, of which one leads the run.
absl::Status CheckServerAddress(const std::string& server);
// HOST of HOST:PORT, for which the certificate of a secured server is. REQUIRES: it was checked.
std::string ServerHost(const std::string& server);

// Thread-safe. A server that cannot be reached is tried again, in turn with those that may have
// taken over from it, until the deadline; the error then says which addresses, since when, and what
// to check.
class ControlClient {
 public:
  explicit ControlClient(ControlClientOptions options);
  ~ControlClient();

  void SetDeadline(Duration deadline) { deadline_ = deadline; }
  // What a member of a secured run says with its calls, from the next one on.
  void SetToken(const std::string& token);
  // Who may answer from now on; the first is asked first, unless it was asked last.
  void SetServers(const std::vector<std::string>& servers);
  // They may answer, too.
  void AddServers(const std::vector<std::string>& servers);
  // The server that the next call asks first.
  std::string server() const;
  // The next call asks another server than `server`, if there is one.
  void TryAnotherThan(const std::string& server);
  // Ends calls that are under way, and refuses new ones.
  void Cancel();

  absl::StatusOr<JoinReply> Join(const JoinRequest& request);
  absl::StatusOr<RegisterReply> Register(const RegisterRequest& request);
  absl::StatusOr<GiveWeightsReply> GiveWeights(const GiveWeightsRequest& request);
  absl::StatusOr<NextSegmentReply> NextSegment(const NextSegmentRequest& request);
  absl::StatusOr<EvaluatedReply> Evaluated(const EvaluatedRequest& request);
  // A server that says nothing for as long as `attempt` is asked again.
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request,
                                           Duration attempt = Duration::max());
  absl::StatusOr<LeaveReply> Leave(const LeaveRequest& request);
  absl::StatusOr<StatusReply> Status(const StatusRequest& request);
  absl::StatusOr<CheckpointReply> Checkpoint(const CheckpointRequest& request);
  absl::StatusOr<DrainReply> Drain(const DrainRequest& request);
  absl::StatusOr<RebalanceReply> Rebalance(const RebalanceRequest& request);
  absl::StatusOr<SetHyperReply> SetHyper(const SetHyperRequest& request);
  // Calls `chunk` for each; its failure ends the stream.
  absl::Status Weights(const std::function<absl::Status(const WeightsChunk&)>& chunk);

 private:
  struct Impl;
  struct Limits {
    Duration attempt = Duration::max();
    bool takes_time = false;  // an answer may be long in coming
    bool may_be_given_up = true;
  };
  template <typename Request, typename Reply, typename Method>
  absl::StatusOr<Reply> Call(Method method, const Request& request);
  template <typename Request, typename Reply, typename Method>
  absl::StatusOr<Reply> Call(Method method, const Request& request, const Limits& limits);
  void FindServers();
  void TellWait(Duration tried);

  absl::Status NoAnswer(const std::string& why, Duration tried) const;

  const ControlClientOptions options_;
  std::atomic<Duration> deadline_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace psgd
