// An etcd for one run on this machine: it lives as long as the run.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "experiment/launch/child_process.h"

namespace psgd {

// Not thread-safe. Ends, and its data with it, when the object goes; what a killed process left,
// the next one removes.
class LocalEtcd {
 public:
  // `tls_dir`: certificates as scripts/make-certs.sh makes them, which it shows and asks for;
  // empty: whoever is on this machine may ask it. NOT_FOUND: it is not installed.
  static absl::StatusOr<std::unique_ptr<LocalEtcd>> Start(const std::string& tls_dir);
  ~LocalEtcd();

  // As --etcd takes it.
  const std::string& members() const { return members_; }

 private:
  LocalEtcd(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  absl::Status Launch(const std::string& program, const std::string& tls_dir);
  bool WaitReady(const std::string& log_file);

  const std::string folder_;
  const int lock_;  // of the folder: says that it is in use
  std::string members_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace psgd
