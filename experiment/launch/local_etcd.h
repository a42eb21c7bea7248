// An etcd for one run on this machine. It lives as long as the run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/file_descriptor.h"
#include "common/status.h"
#include "experiment/launch/child_process.h"

namespace psgd {

// Its data are in the run directory, and stay when the destructor ends it. Not thread-safe.
class LocalEtcd {
 public:
  enum class Data {
    kEarlier,  // goes on with those in the folder
    kNew,      // earlier data are put back by the destructor, unless DropEarlier was called
  };
  // Locks the place of the data for this process until the result is gone. FAILED_PRECONDITION:
  // another ps-run has it.
  static absl::StatusOr<FileDescriptor> Lock(const std::string& run_dir);

  // `server_dir`: of the run directory. `tls_dir` holds certificates made by scripts/make-certs.sh:
  // etcd presents one and asks clients for theirs. Empty: every user of this machine may connect.
  // NOT_FOUND: etcd is not installed. REQUIRES: the caller holds Lock.
  static absl::StatusOr<std::unique_ptr<LocalEtcd>> Start(const std::string& server_dir,
                                                          const std::string& tls_dir, Data data);
  ~LocalEtcd();

  // In the form of --etcd.
  const std::string& members() const { return members_; }
  // Starts it again, over its data and at its ports, if it ended. Returns a note for people; empty:
  // it runs. UNAVAILABLE: it ended too often within a short time, and how.
  absl::StatusOr<std::string> KeepRunning();
  void DropEarlier();
  // Ends it and removes its data.
  void Remove();

 private:
  explicit LocalEtcd(std::string folder) : folder_(std::move(folder)) {}
  void PutEarlierBack();
  void TakePorts(const std::string& program, const std::string& tls_dir);
  absl::Status Launch();
  // `log_begins`: where the log of this process begins in its file.
  bool WaitReady(size_t log_begins);
  std::string LogFile() const { return folder_ + ".log"; }
  std::string Aside() const { return folder_ + ".before"; }  // the place of earlier data

  const std::string folder_;
  std::string members_;
  std::vector<std::string> argv_;
  std::unique_ptr<ChildProcess> process_;
  std::vector<Time> restarts_;  // the recent ones
};

}  // namespace psgd
