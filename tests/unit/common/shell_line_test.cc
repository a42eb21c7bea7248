#include "common/shell_line.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

TEST(ShellLineTest, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(ShellLine({"ps-run", "--set", "a.b=1,2"}), "ps-run --set a.b=1,2");
  EXPECT_EQ(ShellLine({"ps-ctl", "status", "../rün 1"}), "ps-ctl status '../rün 1'");
  EXPECT_EQ(ShellLine({"it's", "", "$HOME"}), "'it'\\''s' '' '$HOME'");
}

}  // namespace
}  // namespace psgd
