#include "experiment/sweep/ssh_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/shell_line.h"
#include "experiment/launch/child_process.h"

namespace psgd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SshPlaces, ReadsHosts) {
  const auto hosts = ParseHosts(" a, user@10.0.0.2 ,,[::1]", "");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_THAT(*hosts, ElementsAre("a", "user@10.0.0.2", "[::1]"));
  for (const char* wrong : {"", "a,-oProxyCommand=x", "a b", "a;b", "a,a"}) {
    EXPECT_EQ(ParseHosts(wrong, "").status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  EXPECT_THAT(std::string(ParseHosts("", "/nowhere/hosts").status().message()),
              HasSubstr("/nowhere/hosts"));
}

// A shell splits the line into the same words, whatever they contain.
TEST(SshPlaces, WordsSurviveAShell) {
  const std::vector<std::string> words = {
      "/usr/bin/printf", "%s|",    "plain", "two words",  "it's",       "",
      "$HOME",           "a;b&&c", "*",     "\"quoted\"", "back\\slash"};
  auto child = ChildProcess::Start({"sh", {"/bin/sh", "-c", ShellLine(words) + "; echo"}, ""});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ((*child)->ReadLine(std::chrono::seconds(10)),
            "plain|two words|it's||$HOME|a;b&&c|*|\"quoted\"|back\\slash|");
}

}  // namespace
}  // namespace psgd
