#include "net/ucx/ucx_library.h"

#include <dlfcn.h>

#include <csignal>
#include <type_traits>

#include "absl/strings/match.h"

namespace psgd {
namespace {

// When it is loaded, UCX takes over the signals of crashes to print a trace. They stay as they
// were: the system writes core dumps, and sanitizers report.
class KeptSignals {
 public:
  KeptSignals() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], nullptr, &actions_[i]);
  }
  ~KeptSignals() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      ::sigaction(kSignals[i], &actions_[i], nullptr);
  }

 private:
  static constexpr int kSignals[] = {SIGILL, SIGABRT, SIGFPE, SIGBUS, SIGSEGV};
  struct sigaction actions_[std::size(kSignals)];
};

absl::StatusOr<UcxLibrary> Open() {
  const KeptSignals signals;
  void* const library = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return FailedPreconditionError("the loader finds no UCX (", ::dlerror(),
                                   "); install libucx0 or name its folder in LD_LIBRARY_PATH; "
                                   "cluster.transport: auto also does without");
  }
  UcxLibrary ucx;
  const char* missing = nullptr;
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(::dlsym(library, name));
    if (*function == nullptr) missing = name;
  };
  find(&ucx.config_read, "ucp_config_read");
  find(&ucx.config_modify, "ucp_config_modify");
  find(&ucx.config_release, "ucp_config_release");
  find(&ucx.init_version, "ucp_init_version");
  find(&ucx.cleanup, "ucp_cleanup");
  find(&ucx.worker_create, "ucp_worker_create");
  find(&ucx.worker_destroy, "ucp_worker_destroy");
  find(&ucx.worker_query, "ucp_worker_query");
  find(&ucx.worker_progress, "ucp_worker_progress");
  find(&ucx.worker_get_efd, "ucp_worker_get_efd");
  find(&ucx.worker_arm, "ucp_worker_arm");
  find(&ucx.set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  find(&ucx.worker_get_address, "ucp_worker_get_address");
  find(&ucx.worker_release_address, "ucp_worker_release_address");
  find(&ucx.ep_create, "ucp_ep_create");
  find(&ucx.ep_close, "ucp_ep_close_nbx");
  find(&ucx.am_send, "ucp_am_send_nbx");
  find(&ucx.am_recv_data, "ucp_am_recv_data_nbx");
  find(&ucx.am_data_release, "ucp_am_data_release");
  find(&ucx.request_free, "ucp_request_free");
  find(&ucx.status_string, "ucs_status_string");
  find(&ucx.get_global_option, "ucs_global_opts_get_value");
  find(&ucx.set_global_option, "ucs_global_opts_set_value");
  if (missing != nullptr) {
    return FailedPreconditionError("this UCX has no ", missing, "; 1.13 and later have it");
  }
  // Lost peers are ordinary here, and UCX would warn of each. A level that UCX_LOG_LEVEL asks for
  // stays.
  char level[32] = {};
  if (ucx.get_global_option("LOG_LEVEL", level, sizeof(level)) == UCS_OK &&
      absl::EqualsIgnoreCase(level, "warn")) {
    (void)ucx.set_global_option("LOG_LEVEL", "fatal");
  }
  return ucx;
}

}  // namespace

absl::StatusOr<const UcxLibrary*> UcxLibrary::Load() {
  static const absl::StatusOr<UcxLibrary> loaded = Open();
  PSGD_RETURN_IF_ERROR(loaded.status());
  return &*loaded;
}

}  // namespace psgd
