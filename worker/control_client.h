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
  // Returns the present addresses of the run's servers, the leader's first. Called when a server
  // does not answer. Null: only the servers themselves know.
  std::function<absl::StatusOr<std::vector<std::string>>()> find = nullptr;
  // A call fails if neither it nor any other call gets an answer for so long. SetDeadline changes
  // this.
  Duration deadline = Milliseconds(60000);
  // Called while a call waits, on any thread that makes a call. An error ends the call. It ends
  // Leave only between two attempts.
  std::function<absl::Status()> interrupted;
  // Null: the server must not ask for credentials.
  std::shared_ptr<const Credentials> credentials;
  // Called once, within two seconds, if no server answers the first call. The text names the
  // addresses, and says how long the call goes on. May be null.
  std::function<void(const std::string&)> on_wait = nullptr;
};

// Checks that `server` is HOST:PORT, with a port from 1 to 65535, or a list of them with commas.
absl::Status CheckServerAddress(const std::string& server);
// Returns HOST of HOST:PORT. The certificate of a secured server is for this host. REQUIRES:
// CheckServerAddress accepts `server`.
std::string ServerHost(const std::string& server);

// Thread-safe. If a server cannot be reached, a call tries it again until the deadline, in turn
// with servers that may have taken over from it. After that the error names the addresses, and says
// since when there is no answer and what to check.
class ControlClient {
 public:
  explicit ControlClient(ControlClientOptions options);
  ~ControlClient();

  void SetDeadline(Duration deadline) { deadline_ = deadline; }
  // The token that a member of a secured run sends with its calls, from the next call on.
  void SetToken(const std::string& token);
  // The servers that may answer from now on. The first of them is asked first, unless it was asked
  // last.
  void SetServers(const std::vector<std::string>& servers);
  // These servers may answer, too.
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
  // Calls `chunk` for each chunk of the weights. An error of `chunk` ends the stream.
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
