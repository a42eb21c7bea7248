// Every ready sweep expands to runs that can be, and says what it asks and what it costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "experiment/sweep/expand.h"
#include "experiment/sweep/sweep_yaml.h"

namespace psgd {
namespace {

using testing::HasSubstr;

TEST(ShippedSweeps, Expand) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PSGD_SOURCE_DIR "/configs/sweeps")) {
    const std::string path = entry.path().string();
    const auto sweep = LoadSweep(path);
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    EXPECT_FALSE(sweep->question().empty()) << path;
    const auto base = BaseConfig(*sweep, path);
    ASSERT_TRUE(base.ok()) << base.status();
    const auto plan = ExpandSweep(*sweep, *base);
    ASSERT_TRUE(plan.ok()) << path << "\n" << plan.status();
    EXPECT_GT(plan->runs.size(), 2u) << path;
    EXPECT_TRUE(plan->runs.front().twin) << path << ": nothing to compare with";
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    EXPECT_TRUE(absl::StartsWith(text.str(), "# ")) << path;
    EXPECT_THAT(text.str(), testing::AllOf(HasSubstr(" runs"), HasSubstr(" minutes"))) << path << ": say what it costs";
    ++found;
  }
  EXPECT_GE(found, 10);
}

}  // namespace
}  // namespace psgd
