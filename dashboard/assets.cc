#include "dashboard/assets.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dashboard/site_guard.h"

namespace psgd {
namespace {

std::string TypeOf(absl::string_view path) {
  if (absl::EndsWith(path, ".html")) return "text/html; charset=utf-8";
  if (absl::EndsWith(path, ".css")) return "text/css; charset=utf-8";
  if (absl::EndsWith(path, ".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

}  // namespace

HttpResponse AssetResponse(absl::string_view path) {
  const absl::string_view wanted = path == "/" ? "/index.html" : path;
  const std::span<const Asset> assets = Assets();
  const auto found = std::ranges::find(assets, wanted, &Asset::path);
  HttpResponse response;
  if (found == assets.end()) {
    response.status = 404;
    response.body = absl::StrCat("there is no page ", path.substr(0, 200), "\n");
  } else {
    response.type = TypeOf(found->path);
    response.body = std::string(found->body);
  }
  AddSafeHeaders(&response);
  return response;
}

}  // namespace psgd
