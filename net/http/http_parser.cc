#include "net/http/http_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace psgd {
namespace {

constexpr absl::string_view kEnd = "\r\n\r\n";

bool IsToken(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) ||
           absl::string_view("!#$%&'*+-.^_`|~").find(c) != absl::string_view::npos;
  });
}

bool IsTarget(absl::string_view text) {
  return absl::StartsWith(text, "/") &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isgraph(c); });
}

absl::Status ParseRequestLine(absl::string_view line, HttpRequest* request) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == absl::string_view::npos || last <= first) {
    return absl::InvalidArgumentError("the request line is none");
  }
  const absl::string_view method = line.substr(0, first);
  const absl::string_view target = line.substr(first + 1, last - first - 1);
  const absl::string_view version = line.substr(last + 1);
  if (!IsToken(method) || !IsTarget(target) || (version != "HTTP/1.1" && version != "HTTP/1.0")) {
    return absl::InvalidArgumentError("the request line is none");
  }
  request->method = std::string(method);
  const size_t question = std::min(target.find('?'), target.size());
  request->path = std::string(target.substr(0, question));
  request->query = std::string(target.substr(std::min(question + 1, target.size())));
  if (version == "HTTP/1.0") request->headers["connection"] = "close";
  return absl::OkStatus();
}

absl::Status ParseHeader(absl::string_view line, HttpRequest* request) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon))) {
    return absl::InvalidArgumentError("a header line is none");
  }
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (std::ranges::any_of(value, [](char c) { return absl::ascii_iscntrl(c) && c != '\t'; })) {
    return InvalidArgumentError("the header ", name, " holds what it may not");
  }
  // Other programs may read the second length or host instead, so duplicates are refused.
  const bool alone = name == "content-length" || name == "host" || name == "transfer-encoding";
  if (!request->headers.try_emplace(name, std::string(value)).second && alone) {
    return InvalidArgumentError("the header ", name, " is there twice");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> ParseHttpRequest(absl::string_view bytes, HttpRequest* request) {
  const size_t end = bytes.substr(0, kMostHttpHeader).find(kEnd);
  if (end == absl::string_view::npos) {
    if (bytes.size() < kMostHttpHeader) return 0;
    return absl::ResourceExhaustedError("the headers are too long");
  }
  *request = HttpRequest();
  absl::string_view head = bytes.substr(0, end);
  bool first = true;
  while (first || !head.empty()) {
    const size_t line = std::min(head.find("\r\n"), head.size());
    PSGD_RETURN_IF_ERROR(first ? ParseRequestLine(head.substr(0, line), request)
                               : ParseHeader(head.substr(0, line), request));
    head.remove_prefix(std::min(line + 2, head.size()));
    first = false;
  }
  if (!request->Header("transfer-encoding").empty()) {
    return absl::UnimplementedError("a body in chunks is not understood; say its Content-Length");
  }
  const size_t body = end + kEnd.size();
  uint64_t length = 0;
  const absl::string_view said = request->Header("content-length");
  const bool digits = std::all_of(said.begin(), said.end(), absl::ascii_isdigit);
  if (!said.empty() && (!digits || !absl::SimpleAtoi(said, &length))) {
    return absl::InvalidArgumentError("the Content-Length is no number");
  }
  if (length > kMostHttpBody) return absl::ResourceExhaustedError("the body is too long");
  if (bytes.size() - body < length) return 0;
  request->body = std::string(bytes.substr(body, length));
  return body + length;
}

absl::string_view HttpReason(int status) {
  static constexpr std::pair<int, absl::string_view> kReasons[] = {
      {200, "OK"},
      {202, "Accepted"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {409, "Conflict"},
      {413, "Content Too Large"},
      {421, "Misdirected Request"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
  };
  for (const auto& [known, reason] : kReasons) {
    if (known == status) return reason;
  }
  return "Internal Server Error";
}

}  // namespace psgd
