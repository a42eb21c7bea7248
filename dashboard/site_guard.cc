#include "dashboard/site_guard.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace psgd {
namespace {

// Returns "10.0.0.1" for "10.0.0.1:7080" and "[::1]" for "[::1]:7080".
absl::string_view WithoutPort(absl::string_view host) {
  if (absl::StartsWith(host, "["))
    return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
  return host.substr(0, host.find(':'));
}

bool IsAddress(absl::string_view host) {
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) return true;
  return !host.empty() && std::all_of(host.begin(), host.end(),
                                      [](char c) { return absl::ascii_isdigit(c) || c == '.'; });
}

}  // namespace

absl::Status CheckHost(const HttpRequest& request, const std::vector<std::string>& names) {
  const std::string host = absl::AsciiStrToLower(WithoutPort(request.Header("host")));
  const bool known = IsAddress(host) || host == "localhost" ||
                     std::any_of(names.begin(), names.end(), [&](const std::string& name) {
                       return absl::EqualsIgnoreCase(name, host);
                     });
  if (known) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("\"", host,
                   "\" is no name of this server; open it by its address, or by the name that "
                   "--advertise gives it"));
}

absl::Status CheckSameSite(const HttpRequest& request) {
  const auto refuse = [](absl::string_view what) {
    return absl::PermissionDeniedError(
        absl::StrCat("refused, as it may come from another web site: ", what));
  };
  const absl::string_view site = request.Header("sec-fetch-site");
  if (!site.empty() && site != "same-origin")
    return refuse(absl::StrCat("Sec-Fetch-Site is ", site));
  absl::string_view origin = request.Header("origin");
  if (!origin.empty()) {
    if (!absl::ConsumePrefix(&origin, "https://")) absl::ConsumePrefix(&origin, "http://");
    if (origin != request.Header("host")) return refuse("Origin is another than Host");
  }
  if (request.Header("x-psgd") != "control") return refuse("the header X-Psgd: control is missing");
  if (!absl::StartsWith(request.Header("content-type"), "application/json")) {
    return refuse("Content-Type is not application/json");
  }
  return absl::OkStatus();
}

void AddSafeHeaders(HttpResponse* response) {
  response->headers.emplace_back(
      "Content-Security-Policy",
      "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; "
      "base-uri 'none'; form-action 'none'");
  response->headers.emplace_back("X-Content-Type-Options", "nosniff");
  response->headers.emplace_back("Referrer-Policy", "no-referrer");
  response->headers.emplace_back("Cache-Control", "no-cache");
}

}  // namespace psgd
