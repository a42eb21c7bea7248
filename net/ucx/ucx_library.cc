#include "net/ucx/ucx_library.h"

#include <csignal>
#include <iterator>

#include "absl/strings/match.h"
#include "common/loaded_library.h"

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
  PSGD_ASSIGN_OR_RETURN(
      LoadedLibrary library,
      LoadedLibrary::Load("libucp.so.0",
                          "for UCX install libucx0 or name its folder in LD_LIBRARY_PATH; "
                          "cluster.transport: auto also does without"));
  UcxLibrary ucx;
  library.Find("ucp_config_read", &ucx.config_read);
  library.Find("ucp_config_modify", &ucx.config_modify);
  library.Find("ucp_config_release", &ucx.config_release);
  library.Find("ucp_init_version", &ucx.init_version);
  library.Find("ucp_cleanup", &ucx.cleanup);
  library.Find("ucp_worker_create", &ucx.worker_create);
  library.Find("ucp_worker_destroy", &ucx.worker_destroy);
  library.Find("ucp_worker_query", &ucx.worker_query);
  library.Find("ucp_worker_progress", &ucx.worker_progress);
  library.Find("ucp_worker_get_efd", &ucx.worker_get_efd);
  library.Find("ucp_worker_arm", &ucx.worker_arm);
  library.Find("ucp_worker_set_am_recv_handler", &ucx.set_am_recv_handler);
  library.Find("ucp_worker_get_address", &ucx.worker_get_address);
  library.Find("ucp_worker_release_address", &ucx.worker_release_address);
  library.Find("ucp_ep_create", &ucx.ep_create);
  library.Find("ucp_ep_close_nbx", &ucx.ep_close);
  library.Find("ucp_ep_print_info", &ucx.ep_print_info);
  library.Find("ucp_am_send_nbx", &ucx.am_send);
  library.Find("ucp_am_recv_data_nbx", &ucx.am_recv_data);
  library.Find("ucp_am_data_release", &ucx.am_data_release);
  library.Find("ucp_request_free", &ucx.request_free);
  library.Find("ucs_status_string", &ucx.status_string);
  library.Find("ucs_global_opts_get_value", &ucx.get_global_option);
  library.Find("ucs_global_opts_set_value", &ucx.set_global_option);
  PSGD_RETURN_IF_ERROR(library.FoundAll("UCX 1.13 and later have it"));
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
