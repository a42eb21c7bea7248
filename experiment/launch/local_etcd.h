// An etcd for one run on this machine. It lives as long as the run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "experiment/launch/child_process.h"

namespace psgd {

// The destructor ends etcd and removes its data. After a kill, the next LocalEtcd removes what is
// left. Not thread-safe.
class LocalEtcd {
 public:
  // `tls_dir` holds certificates made by scripts/make-certs.sh: etcd presents one and asks clients
  // for theirs. Empty: every user of this machine may connect. NOT_FOUND: etcd is not installed.
  static absl::StatusOr<std::unique_ptr<LocalEtcd>> Start(const std::string& tls_dir);
  ~LocalEtcd();

  // In the form of --etcd.
  const std::string& members() const { return members_; }
  // Starts it again, over its data and at its ports, if it ended. Returns a note for people; empty:
  // it runs. UNAVAILABLE: it ended too often within a short time, and how.
  absl::StatusOr<std::string> KeepRunning();

 private:
  LocalEtcd(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  void TakePorts(const std::string& program, const std::string& tls_dir);
  absl::Status Launch();
  // `log_begins`: where the log of this process begins in its file.
  bool WaitReady(size_t log_begins);
  std::string LogFile() const { return folder_ + "/log"; }

  const std::string folder_;
  const int lock_;  // lock on the folder; marks the folder as in use
  std::string members_;
  std::vector<std::string> argv_;
  std::unique_ptr<ChildProcess> process_;
  std::vector<Time> restarts_;  // the recent ones
};

}  // namespace psgd
