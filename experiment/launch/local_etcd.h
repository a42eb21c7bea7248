// An etcd for one run on this machine. It lives as long as the run.
#pragma once

#include <atomic>
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
  // `stops`, which may be null: above zero it ends the start, and above one a later start again.
  // NOT_FOUND: etcd is not installed. CANCELLED: it was stopped. REQUIRES: the caller holds Lock.
  static absl::StatusOr<std::unique_ptr<LocalEtcd>> Start(const std::string& server_dir,
                                                          const std::string& tls_dir, Data data,
                                                          const std::atomic<int>* stops);
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
  LocalEtcd(std::string folder, const std::atomic<int>* stops)
      : folder_(std::move(folder)), stops_(stops) {}
  void PutEarlierBack();
  void TakePorts(const std::string& program, const std::string& tls_dir);
  // `most_stops`: more of them end the wait.
  absl::Status Launch(int most_stops);
  // `log_begins`: where the log of this process begins in its file.
  bool WaitReady(size_t log_begins, int most_stops);
  bool Stopped(int most_stops) const { return stops_ != nullptr && *stops_ > most_stops; }
  std::string LogFile() const;
  std::string EarlierLogFile() const { return folder_ + ".old"; }
  std::string Aside() const { return folder_ + ".before"; }  // the place of earlier data

  const std::string folder_;
  const std::atomic<int>* const stops_;
  std::string members_;
  std::vector<std::string> argv_;
  std::unique_ptr<ChildProcess> process_;
  std::vector<Time> restarts_;  // the recent ones
};

}  // namespace psgd
