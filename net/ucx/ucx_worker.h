// A UCX worker (its word for a set of connections with one progress), and what it owns.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "net/ucx/ucx_library.h"

namespace psgd {

// Calls must not overlap; any thread may make the next.
class UcxWorker {
 public:
  // Which networks it may use. UCX opens ports of its own on each of them.
  enum class Reach { kThisMachine, kAllNetworks };
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(Reach reach);
  // An error if this process cannot open that many more files. UCX ends a process that cannot.
  static absl::Status CheckFiles(int count);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  const UcxLibrary& ucx() const { return ucx_; }
  ucp_worker_h get() const { return worker_; }
  size_t max_header_bytes() const { return max_header_bytes_; }
  // Whether anything happened. Callbacks run meanwhile.
  bool Progress() { return ucx_.worker_progress(worker_) != 0; }
  // Makes fd() readable when Progress has something to do. False: it has now.
  bool Arm() { return ucx_.worker_arm(worker_) == UCS_OK; }
  int fd() const { return fd_; }
  // What peers need to reach it.
  const std::string& address() const { return address_; }

 private:
  // Devices are opened once for each process and Reach.
  struct Context {
    explicit Context(const UcxLibrary& library) : ucx(library) {}
    ~Context() {
      if (handle != nullptr) ucx.cleanup(handle);
    }
    const UcxLibrary& ucx;
    ucp_context_h handle = nullptr;
  };
  static absl::StatusOr<std::shared_ptr<const Context>> SharedContext(const UcxLibrary& ucx,
                                                                      Reach reach);

  UcxWorker(const UcxLibrary& ucx, std::shared_ptr<const Context> context)
      : ucx_(ucx), context_(std::move(context)) {}

  const UcxLibrary& ucx_;
  const std::shared_ptr<const Context> context_;
  ucp_worker_h worker_ = nullptr;
  size_t max_header_bytes_ = 0;
  int fd_ = -1;
  std::string address_;
};

}  // namespace psgd
