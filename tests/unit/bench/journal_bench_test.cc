// The measured work is right: each level acknowledges pushes, and what it wrote makes the same
// weights.
#include "bench/journal_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace psgd {
namespace {

TEST(JournalBench, EveryLevelHasRowsThatWereVerified) {
  std::string folder = std::filesystem::temp_directory_path() / "psgd-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto rows = RunJournalBench({.folder = folder, .seconds = 0.02, .group = 2});
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<std::string> names;
  for (const BenchRow& row : *rows) {
    names.push_back(row.name);
    EXPECT_TRUE(row.verified) << row.name;
    EXPECT_GT(row.extra.at("pushes_per_second"), 0) << row.name;
  }
  EXPECT_THAT(names, testing::ElementsAre("memory/sparse", "memory/dense", "journal/sparse",
                                          "journal/dense", "fsync/sparse", "fsync/dense"));
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "something is left";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace psgd
