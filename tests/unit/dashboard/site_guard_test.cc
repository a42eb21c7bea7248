#include "dashboard/site_guard.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

HttpRequest With(std::map<std::string, std::string> headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

TEST(SiteGuard, KnowsItsNames) {
  const std::vector<std::string> names = {"head-node"};
  for (const char* host :
       {"127.0.0.1:7080", "localhost:7080", "[::1]:7080", "LOCALHOST", "head-node:1", "10.0.0.1"}) {
    EXPECT_TRUE(CheckHost(With({{"host", host}}), names).ok()) << host;
  }
  for (const char* host :
       {"evil.example:7080", "127.0.0.1.evil.example", "", "[", "head-node.evil.example"}) {
    EXPECT_FALSE(CheckHost(With({{"host", host}}), names).ok()) << host;
  }
}

TEST(SiteGuard, AChangeComesFromItsOwnPage) {
  const std::map<std::string, std::string> good = {{"host", "127.0.0.1:1"},
                                                   {"origin", "http://127.0.0.1:1"},
                                                   {"sec-fetch-site", "same-origin"},
                                                   {"x-psgd", "control"},
                                                   {"content-type", "application/json"}};
  EXPECT_TRUE(CheckSameSite(With(good)).ok());
  const auto but = [&](const std::string& name, const std::string& value) {
    auto headers = good;
    headers[name] = value;
    return CheckSameSite(With(headers)).code();
  };
  EXPECT_EQ(but("origin", "http://127.0.0.1:2"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(but("origin", "null"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(but("sec-fetch-site", "same-site"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(but("x-psgd", ""), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(but("content-type", "text/plain"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(but("origin", "https://127.0.0.1:1"), absl::StatusCode::kOk);
  auto by_hand = good;
  by_hand.erase("origin");
  by_hand.erase("sec-fetch-site");
  EXPECT_TRUE(CheckSameSite(With(by_hand)).ok());  // curl
}

}  // namespace
}  // namespace psgd
