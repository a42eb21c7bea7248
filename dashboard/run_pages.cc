#include "dashboard/run_pages.h"

#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dashboard/assets.h"
#include "dashboard/control_calls.h"
#include "dashboard/site_guard.h"
#include "net/address.h"

namespace psgd {
namespace {

constexpr size_t kQuestionsWaiting = 64;
constexpr Duration kLookAgain = std::chrono::seconds(2);

HttpResponse Json(std::string body) {
  HttpResponse response;
  response.type = "application/json";
  response.body = std::move(body);
  AddSafeHeaders(&response);
  return response;
}

}  // namespace

std::string PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() &&
                        absl::ascii_isxdigit(text[i + 1]) && absl::ascii_isxdigit(text[i + 2]);
    if (!escape) {
      decoded += text[i];
      continue;
    }
    decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
    i += 2;
  }
  return decoded;
}

absl::StatusOr<std::unique_ptr<RunPages>> RunPages::Start(const std::string& root,
                                                          const std::string& host, int port) {
  if (std::error_code error; !std::filesystem::is_directory(root, error)) {
    return InvalidArgumentError(
        root, " is no folder; give the one that runs lie in, as runs, or a run's own");
  }
  std::unique_ptr<RunPages> pages(
      new RunPages(std::filesystem::absolute(root).lexically_normal().string(), host));
  PSGD_ASSIGN_OR_RETURN(pages->http_, HttpServer::Listen({.host = host, .port = port}));
  pages->library_.Scan();
  pages->http_->Serve([p = pages.get()](const HttpRequest& request, const HttpReply& reply) {
    p->Handle(request, reply);
  });
  pages->worker_ = std::thread([p = pages.get()] { p->Work(); });
  return pages;
}

RunPages::RunPages(const std::string& root, const std::string& host)
    : host_(host),
      library_(root.size() > 1 && root.back() == '/' ? root.substr(0, root.size() - 1) : root),
      questions_(kQuestionsWaiting) {}

RunPages::~RunPages() {
  questions_.Close();
  if (worker_.joinable()) worker_.join();
  http_.reset();
}

std::string RunPages::address() const { return HostPort(host_, http_->port()); }

void RunPages::Handle(const HttpRequest& request, const HttpReply& reply) {
  if (const absl::Status known = CheckHost(request, {}); !known.ok()) {
    return reply.Send(ErrorResponse(known));
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return reply.Send(ErrorResponse(absl::InvalidArgumentError("these pages are only read")));
  }
  absl::string_view query = request.query;
  const bool events = request.path == "/events";
  if (!events && request.path != "/api/run") return reply.Send(AssetResponse(request.path));
  absl::ConsumePrefix(&query, "id=");
  if (!questions_.TryPush({events ? "" : PercentDecoded(query), reply})) {
    reply.Send(ErrorResponse(absl::UnavailableError("too many ask at once; ask again")));
  }
}

void RunPages::Work() {
  Time scanned = SteadyNow();
  while (true) {
    auto question = questions_.PopFor(kLookAgain);
    if (question && question->id.empty()) {
      question->reply.Stream(
          ServerSentEvent("runs", absl::StrCat("{\"rows\":", library_.Rows(), "}")));
    } else if (question) {
      auto run = library_.Run(question->id);
      question->reply.Send(run.ok() ? Json(*std::move(run)) : ErrorResponse(run.status()));
    } else if (questions_.closed()) {
      return;
    }
    if (SteadyNow() - scanned < kLookAgain) continue;
    if (library_.Scan()) {
      http_->Publish(ServerSentEvent("runs", absl::StrCat("{\"rows\":", library_.Rows(), "}")));
    }
    scanned = SteadyNow();
  }
}

}  // namespace psgd
