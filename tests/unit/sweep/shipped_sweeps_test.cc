// Every shipped sweep expands to valid runs, and states its question and its cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <sstream>

#include "absl/strings/match.h"
#include "experiment/plan/expand.h"
#include "experiment/plan/sweep_yaml.h"
#include "tests/folders.h"

namespace psgd {
namespace {

using testing::HasSubstr;

TEST(ShippedSweeps, Expand) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/configs/sweeps")) {
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
    EXPECT_THAT(text.str(), testing::AllOf(HasSubstr(" runs"), HasSubstr(" minutes")))
        << path << ": say what it costs";
    // The comment says "18 runs and 6 twins", or the total number of runs.
    std::smatch said;
    const std::string header = text.str();
    ASSERT_TRUE(
        std::regex_search(header, said, std::regex("([0-9]+) runs(?: and ([0-9]+) twins)?")))
        << path;
    const auto twins = static_cast<size_t>(std::count_if(
        plan->runs.begin(), plan->runs.end(), [](const PlannedRun& run) { return run.twin; }));
    EXPECT_EQ(std::stoul(said[1]), said[2].matched ? plan->runs.size() - twins : plan->runs.size())
        << path;
    if (said[2].matched) {
      EXPECT_EQ(std::stoul(said[2]), twins) << path;
    }
    ++found;
  }
  EXPECT_GE(found, 10);
}

// Any file is read or refused.
TEST(ShippedSweeps, MutationsAreReadOrRefused) {
  const std::string pieces[] = {":",  "- ", "[",  "]",    "{",  "}",  "\n", "  ",
                                "*a", "\"", "# ", "null", "-1", "1e", ", "};
  std::mt19937_64 random(5);
  int accepted = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/configs/sweeps")) {
    std::stringstream stream;
    stream << std::ifstream(entry.path()).rdbuf();
    for (int i = 0; i < 200; ++i) {
      std::string text = stream.str();
      const size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 8);
      } else {
        text.insert(at, pieces[random() % std::size(pieces)]);
      }
      const auto sweep = ParseSweep(text, "s.yaml");
      (sweep.ok() ? accepted : refused) += 1;
      if (sweep.ok()) continue;
      EXPECT_THAT(std::string(sweep.status().message()), testing::StartsWith("s.yaml:"));
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace psgd
