// The functions of UCX, whose library is loaded when it is first needed. So programs also start on
// a machine that lacks it.
#pragma once

#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

#include "common/status.h"

namespace psgd {

// V(a name of UCX, which its docs explain; a member of UcxLibrary).
#define PSGD_UCX_FUNCTIONS(V)                            \
  V(ucp_config_read, config_read)                        \
  V(ucp_config_modify, config_modify)                    \
  V(ucp_config_release, config_release)                  \
  V(ucp_init_version, init_version)                      \
  V(ucp_cleanup, cleanup)                                \
  V(ucp_worker_create, worker_create)                    \
  V(ucp_worker_destroy, worker_destroy)                  \
  V(ucp_worker_query, worker_query)                      \
  V(ucp_worker_progress, worker_progress)                \
  V(ucp_worker_get_efd, worker_get_efd)                  \
  V(ucp_worker_arm, worker_arm)                          \
  V(ucp_worker_set_am_recv_handler, set_am_recv_handler) \
  V(ucp_worker_get_address, worker_get_address)          \
  V(ucp_worker_release_address, worker_release_address)  \
  V(ucp_ep_create, ep_create)                            \
  V(ucp_ep_close_nbx, ep_close)                          \
  V(ucp_ep_print_info, ep_print_info)                    \
  V(ucp_am_send_nbx, am_send)                            \
  V(ucp_am_recv_data_nbx, am_recv_data)                  \
  V(ucp_am_data_release, am_data_release)                \
  V(ucp_request_free, request_free)                      \
  V(ucs_status_string, status_string)                    \
  V(ucs_global_opts_get_value, get_global_option)        \
  V(ucs_global_opts_set_value, set_global_option)

struct UcxLibrary {
  // FAILED_PRECONDITION: the machine has no UCX that this program can use. Thread-safe.
  static absl::StatusOr<const UcxLibrary*> Load();

#define PSGD_DECLARE(name, member) decltype(&::name) member = nullptr;
  PSGD_UCX_FUNCTIONS(PSGD_DECLARE)
#undef PSGD_DECLARE
};

}  // namespace psgd
