#include "dashboard/live_pages.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dashboard/assets.h"
#include "dashboard/control_calls.h"
#include "dashboard/site_guard.h"
#include "experiment/record/run_dir.h"
#include "net/address.h"
#include "server/control/metrics_page.h"
#include "server/control/server_loop.h"
#include "server/coordinator/access.h"

namespace psgd {
namespace {

constexpr size_t kCallsWaiting = 64;

// The call that decides who may see the page; docs/security.md.
absl::string_view CallOf(const HttpRequest& request) {
  if (request.path == "/metrics") return "/metrics";
  const absl::string_view control = ControlCallOf(request.path);
  return control.empty() ? "Status" : control;
}

HttpResponse NotThisWay(const std::string& allowed) {
  HttpResponse response = ErrorResponse(absl::OkStatus());
  response.status = 405;
  response.body = absl::StrCat("this takes ", allowed, "\n");
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LivePages>> LivePages::Listen(LivePagesOptions options) {
  options.http.credentials = options.credentials.get();
  std::unique_ptr<LivePages> pages(new LivePages(std::move(options)));
  PSGD_ASSIGN_OR_RETURN(pages->http_, HttpServer::Listen(pages->options_.http));
  const auto earlier = ReadMetrics(RunDir(pages->options_.run_dir).MetricsFile());
  if (!earlier.ok()) return pages;  // a new run has none
  for (const Record& record : *earlier) pages->history_.Add(record);
  return pages;
}

LivePages::LivePages(LivePagesOptions options)
    : options_(std::move(options)), history_(RunHistoryOptions()), calls_(kCallsWaiting) {}

LivePages::~LivePages() {
  http_.reset();  // no more requests after this
  calls_.Close();
  if (thread_.joinable()) thread_.join();
}

std::string LivePages::address() const { return HostPort(options_.http.host, http_->port()); }

void LivePages::Observe(const Record& record) {
  std::lock_guard lock(history_mutex_);
  http_->Publish(ServerSentEvent("record", history_.Add(record)));
}

void LivePages::Serve(ServerLoop* server) {
  {
    std::lock_guard lock(server_mutex_);
    server_ = server;
  }
  thread_ = std::thread([this] { AnswerCalls(); });
  http_->Serve(
      [this](const HttpRequest& request, const HttpReply& reply) { Handle(request, reply); });
}

void LivePages::Detach() {
  http_->Publish(ServerSentEvent("over", "{}"));
  std::lock_guard lock(server_mutex_);
  server_ = nullptr;
}

absl::Status LivePages::Check(const HttpRequest& request) const {
  // A metrics collector may use any name for this machine, and browsers do not read that page.
  if (request.path != "/metrics" && !options_.credentials) {
    PSGD_RETURN_IF_ERROR(CheckHost(request, options_.names));
  }
  return request.method == "POST" ? CheckSameSite(request) : absl::OkStatus();
}

void LivePages::Handle(const HttpRequest& request, const HttpReply& reply) {
  const bool control = !ControlCallOf(request.path).empty();
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (control ? request.method != "POST" : !reads) {
    return reply.Send(NotThisWay(control ? "POST" : "GET"));
  }
  if (const absl::Status allowed = Check(request); !allowed.ok()) {
    return reply.Send(ErrorResponse(allowed));
  }
  const bool asks =
      control || request.path == "/metrics" || request.path == "/events" || request.path == "/";
  // Scripts, styles and pages contain no data of the run.
  if (!asks) return reply.Send(AssetResponse(request.path));
  if (!calls_.TryPush({request, reply})) {
    reply.Send(ErrorResponse(absl::UnavailableError("too many ask at once; ask again")));
  }
}

void LivePages::AnswerCalls() {
  while (const auto call = calls_.Pop()) {
    std::lock_guard lock(server_mutex_);
    if (server_ == nullptr) {
      call->reply.Send(
          ErrorResponse(absl::UnavailableError("the run is over, and the server is ending")));
      continue;
    }
    const absl::Status allowed =
        server_->guard().CheckRole(call->request.role, CallOf(call->request));
    if (!allowed.ok()) {
      call->reply.Send(ErrorResponse(allowed));
    } else if (call->request.path == "/events") {
      BeginStream(call->request, call->reply);
    } else {
      call->reply.Send(Answer(call->request, *server_));
    }
  }
}

void LivePages::BeginStream(const HttpRequest& request, const HttpReply& reply) {
  const bool control = request.role.ok() && CheckAccess(*request.role, "SetHyper").ok();
  const Record run{{"dir", options_.run_dir}, {"config", options_.config}, {"control", control}};
  std::lock_guard lock(history_mutex_);
  reply.Stream(ServerSentEvent(
      "start", absl::StrCat("{\"run\":", JsonText(run), ",\"records\":", history_.Json(), "}")));
}

HttpResponse LivePages::Answer(const HttpRequest& request, ServerLoop& server) const {
  HttpResponse response;
  if (request.path == "/") return AssetResponse("/");
  if (request.path == "/metrics") {
    const auto status = server.Call(StatusRequest());
    if (!status.ok()) return ErrorResponse(status.status());
    response.type = "text/plain; version=0.0.4";
    response.body = RenderPrometheus(*status);
    return response;
  }
  const auto said = CallControl(request, server);
  if (!said.ok()) return ErrorResponse(said.status());
  response.body = absl::StrCat(*said, "\n");
  AddSafeHeaders(&response);
  return response;
}

}  // namespace psgd
