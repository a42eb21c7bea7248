#include "common/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace psgd {
namespace {

TEST(Names, AreShortAndPlain) {
  for (const std::string& good :
       {std::string("host-12.example_0"), std::string("a"), std::string(64, 'x')}) {
    EXPECT_TRUE(CheckPeerName("n", good).ok()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string(65, 'x'), std::string("a/b"), std::string("a b"),
        std::string("\x1b[31m"), std::string("a\0b", 3), std::string("\xc3\xa4")}) {
    const absl::Status status = CheckPeerName("the worker's name", bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    // The error does not repeat a bad name, since errors end up in logs and on terminals.
    EXPECT_TRUE(bad.size() < 2 || status.message().find(bad) == absl::string_view::npos);
  }
}

TEST(Names, TextOfPeersIsReadable) {
  EXPECT_EQ(Readable("two\nlines"), "two\nlines");
  EXPECT_EQ(Readable("\x1b[31mred\x7f\r"), "?[31mred??");
  EXPECT_EQ(Readable(std::string(5000, 'x')).size(), 2000u);
  // The cut drops a whole umlaut rather than half of it.
  EXPECT_EQ(Readable(std::string(1999, 'x') + "\xc3\xa4"), std::string(1999, 'x'));
  EXPECT_EQ(Readable("\xc3\xa4\xe2\x82\xac"), "\xc3\xa4\xe2\x82\xac");
  // Messages have only UTF-8.
  EXPECT_EQ(Readable("caf\xe9 \xed\xa0\x80"), "caf? ???");
}

}  // namespace
}  // namespace psgd
