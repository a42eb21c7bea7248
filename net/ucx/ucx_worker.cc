#include "net/ucx/ucx_worker.h"

#include <mutex>
#include <utility>

#include "common/open_files.h"

namespace psgd {
namespace {

absl::Status Check(const UcxLibrary& ucx, ucs_status_t status, const char* what) {
  if (status == UCS_OK) return absl::OkStatus();
  return UnavailableError("UCX: ", what, ": ", ucx.status_string(status),
                          "; `ucx_info -d` lists its devices; ", OpenFilesText());
}

}  // namespace

absl::Status UcxWorker::CheckFiles(int count) {
  if (CanOpenFiles(count)) return absl::OkStatus();
  return UnavailableError("UCX: it would need to open up to ", count, " more files; ",
                          OpenFilesText());
}

absl::StatusOr<std::shared_ptr<const UcxWorker::Context>> UcxWorker::SharedContext(
    const UcxLibrary& ucx, Reach reach) {
  static std::mutex mutex;
  static std::weak_ptr<const Context> contexts[2];
  std::weak_ptr<const Context>& latest = contexts[reach == Reach::kAllNetworks];
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<const Context> context = latest.lock()) return context;

  ucp_config_t* config = nullptr;  // of UCX_* in the environment
  PSGD_RETURN_IF_ERROR(Check(ucx, ucx.config_read(nullptr, nullptr, &config), "no configuration"));
  if (reach == Reach::kThisMachine) (void)ucx.config_modify(config, "NET_DEVICES", "lo");
  // Otherwise UCX waits for each TCP connection that it makes: one into the void would stop all
  // peers for minutes.
  for (const char* name : {"CONN_NB", "TCP_CONN_NB"}) {  // until UCX 1.16, and since 1.17
    (void)ucx.config_modify(config, name, "y");
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  auto context = std::make_shared<Context>(ucx);
  const ucs_status_t status =
      ucx.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context->handle);
  ucx.config_release(config);
  PSGD_RETURN_IF_ERROR(Check(ucx, status, "no context"));
  latest = context;
  return context;
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(Reach reach) {
  constexpr int kFiles = 32;  // more than a context and a worker open
  PSGD_RETURN_IF_ERROR(CheckFiles(kFiles));
  PSGD_ASSIGN_OR_RETURN(const UcxLibrary* const ucx, UcxLibrary::Load());
  PSGD_ASSIGN_OR_RETURN(std::shared_ptr<const Context> context, SharedContext(*ucx, reach));
  std::unique_ptr<UcxWorker> made(new UcxWorker(*ucx, std::move(context)));
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  PSGD_RETURN_IF_ERROR(Check(
      *ucx, ucx->worker_create(made->context_->handle, &params, &made->worker_), "no worker"));
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  PSGD_RETURN_IF_ERROR(Check(*ucx, ucx->worker_query(made->worker_, &attributes), "no attributes"));
  made->max_header_bytes_ = attributes.max_am_header;
  PSGD_RETURN_IF_ERROR(
      Check(*ucx, ucx->worker_get_efd(made->worker_, &made->fd_), "no event descriptor"));
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  PSGD_RETURN_IF_ERROR(
      Check(*ucx, ucx->worker_get_address(made->worker_, &address, &bytes), "no address"));
  made->address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucx->worker_release_address(made->worker_, address);
  return made;
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucx_.worker_destroy(worker_);
}

}  // namespace psgd
