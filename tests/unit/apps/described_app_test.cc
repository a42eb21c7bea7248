// What manual pages and completions are told of options.
#include "apps/described_app.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

TEST(DescribedOption, ValuesHaveTheirNamesAndNotTheirChecks) {
  CLI::App app;
  std::string text;
  int number = 0;
  const auto value_of = [](const CLI::Option* option) { return DescribeOption(*option).value; };
  EXPECT_EQ(value_of(app.add_option("--a", text)), "TEXT");
  EXPECT_EQ(value_of(app.add_option("--b", number)->check(CLI::Range(1, 64))), "N");
  EXPECT_EQ(value_of(app.add_option("--c", text)->type_name("HOST:PORT")), "HOST:PORT");
  EXPECT_EQ(value_of(app.add_option("--d", text)
                         ->type_name("HOST:PORT[,HOST:PORT]")
                         ->check(CLI::ExistingFile)),
            "HOST:PORT[,HOST:PORT]");
  EXPECT_EQ(value_of(app.add_option("--e", text)->type_name("[NAME:]KEY=VALUE")),
            "[NAME:]KEY=VALUE");
  EXPECT_EQ(value_of(app.add_option("--f", text)->type_name("DIR")->check(CLI::ExistingDirectory)),
            "DIR");
}

}  // namespace
}  // namespace psgd
