#include "bench/bench_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace psgd {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

std::string Line(const std::string& date, double ratio, const std::string& settings = "") {
  return R"({"date": ")" + date +
         R"(", "machine": "a <machine>", "commit": "abc", "bench": "apply", "case": "sgd/none",)" +
         R"( "gbps": 5, "limit_gbps": 10, "ratio": )" + std::to_string(ratio) + settings + "}\n";
}

class BenchHistory : public testing::Test {
 protected:
  ~BenchHistory() override { std::filesystem::remove(path_); }
  std::string Write(const std::string& text) const {
    std::ofstream(path_) << text;
    return path_;
  }
  const std::string path_ = testing::TempDir() + "/bench-history.jsonl";
};

TEST_F(BenchHistory, ShowsTheChangeOfEachCase) {
  const auto entries = ReadHistory(Write(Line("2026-01-01", 0.5) + Line("2026-02-01", 0.75)));
  ASSERT_TRUE(entries.ok()) << entries.status();
  const std::string text = HistoryText(*entries);
  EXPECT_THAT(text, HasSubstr("apply sgd/none"));
  EXPECT_THAT(text, HasSubstr("+50.0%  2026-01-01 to 2026-02-01"));
  const std::string page = HistoryPage(*entries);
  EXPECT_THAT(page, HasSubstr("a &lt;machine&gt;"));
  EXPECT_THAT(page, HasSubstr("sgd/none, 2026-02-01 abc: 5.00 GB/s, 0.75 of 10.00"));
}

// A change of settings is no change of speed.
TEST_F(BenchHistory, KeepsOtherSettingsApart) {
  const std::string four = R"(, "copy": "yes", "in_flight": 4.0)", one = R"(, "in_flight": 1)";
  const auto entries =
      ReadHistory(Write(Line("2026-01-01", 0.5) + Line("2026-02-01", 0.6, four) +
                        Line("2026-03-01", 0.2, one) + Line("2026-04-01", 0.75, four)));
  ASSERT_TRUE(entries.ok()) << entries.status();
  const std::string text = HistoryText(*entries);
  EXPECT_THAT(text, ContainsRegex("sgd/none  .* 2026-01-01 to 2026-01-01"));
  EXPECT_THAT(text, ContainsRegex("copy yes, in_flight 4 .*25.0%  2026-02-01 to 2026-04-01"));
  EXPECT_THAT(text, ContainsRegex("sgd/none, in_flight 1 .* 2026-03-01 to 2026-03-01"));
  EXPECT_THAT(HistoryPage(*entries), HasSubstr("sgd/none, in_flight 1, 2026-03-01 abc"));
}

TEST_F(BenchHistory, NamesALineThatIsNoResult) {
  const auto cut = ReadHistory(Write(Line("2026-01-01", 0.5) + R"({"date": "2026-)"));
  EXPECT_TRUE(absl::IsInvalidArgument(cut.status()));
  EXPECT_THAT(std::string(cut.status().message()),
              HasSubstr("bench-history.jsonl:2: not a result"));
  EXPECT_TRUE(absl::IsNotFound(ReadHistory("/no/such/file").status()));
}

}  // namespace
}  // namespace psgd
