#include "net/http/http_parser.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

absl::StatusOr<size_t> Parse(const std::string& bytes, HttpRequest* request) {
  return ParseHttpRequest(bytes, request);
}

absl::StatusCode CodeOf(const std::string& bytes) {
  HttpRequest request;
  return Parse(bytes, &request).status().code();
}

TEST(HttpParser, ReadsARequest) {
  HttpRequest request;
  const std::string bytes =
      "POST /api/drain?x=1 HTTP/1.1\r\nHost: a:1\r\nX-Psgd:  control \r\nContent-Length: "
      "3\r\n\r\nabcGET";
  const auto size = Parse(bytes, &request);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, bytes.size() - 3);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/api/drain");
  EXPECT_EQ(request.query, "x=1");
  EXPECT_EQ(request.Header("x-psgd"), "control");
  EXPECT_EQ(request.Header("cookie"), "");
  EXPECT_EQ(request.body, "abc");
}

TEST(HttpParser, WaitsForTheRest) {
  const std::string bytes = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab";
  HttpRequest request;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(Parse(bytes.substr(0, size), &request).value_or(99), 0u) << size;
  }
  EXPECT_EQ(Parse(bytes, &request).value_or(0), bytes.size());
}

TEST(HttpParser, RefusesWhatOthersMightReadInAnotherWay) {
  const auto with = [](const std::string& headers) {
    return "GET / HTTP/1.1\r\n" + headers + "\r\n\r\n";
  };
  for (const std::string headers :
       {"Content-Length: 1\r\nContent-Length: 2", "Content-Length: -1", "Content-Length: 1x",
        "Host: a\r\nHost: b", "No colon", "Space : a", " : a", "A: b\x01"}) {
    EXPECT_EQ(CodeOf(with(headers)), absl::StatusCode::kInvalidArgument) << headers;
  }
  for (const std::string line :
       {"GET /", "GET  HTTP/1.1", "GET x HTTP/1.1", "GET / HTTP/2.0", "G@T / HTTP/1.1", ""}) {
    EXPECT_EQ(CodeOf(line + "\r\n\r\n"), absl::StatusCode::kInvalidArgument) << line;
  }
  EXPECT_EQ(CodeOf(with("Transfer-Encoding: chunked")), absl::StatusCode::kUnimplemented);
}

TEST(HttpParser, RefusesWhatIsTooLarge) {
  EXPECT_EQ(CodeOf(std::string(kMostHttpHeader, 'a')), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("GET / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n"),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace psgd
