// An etcd for one run on this machine. It lives as long as the run.
#pragma once

#include <memory>
#include <string>

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
  // UNAVAILABLE: it ended, and how.
  absl::Status Check() const;

 private:
  LocalEtcd(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  absl::Status Launch(const std::string& program, const std::string& tls_dir);
  bool WaitReady(const std::string& log_file);

  const std::string folder_;
  const int lock_;  // lock on the folder; marks the folder as in use
  std::string members_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace psgd
