// ps-bench prints what it measured so that a small number can be judged.
#include <map>

#include "absl/strings/str_split.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

TEST(Bench, ASmallSliceHasThreeDigitsAndTheTimeOfAnExchange) {
  const Ended ended = RunProgram({"ps-bench", "push-pull", "--transport", "zmq", "--slice", "4100",
                                  "--count", "1", "--rounds", "20", "--pause", "2"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, ContainsRegex("push/zmq/4100B +[0-9.]+ .*yes  .*exchange_us=[0-9]"));
  EXPECT_THAT(ended.out, testing::Not(ContainsRegex("B +0\\.0[0-9] "))) << "two digits say little";
}

TEST(Bench, PushPullSaysWhatItMeasured) {
  const std::vector<std::string> bench = {
      "ps-bench", "push-pull", "--slice", "4KiB",   "--count",     "2",       "--workers",
      "2",        "--rounds",  "2",       "--copy", "--optimizer", "momentum"};
  EXPECT_THAT(RunProgram(bench).out,
              ContainsRegex("codec=none  copy=yes  optimizer=momentum  pin=no .* in_flight=4 "));
  const std::string json = RunProgram(bench + std::vector<std::string>{"--json"}).out;
  const Json row = Json::parse(json.substr(0, json.find('\n')));
  EXPECT_EQ(row["optimizer"], "momentum");
  EXPECT_EQ(row["copy"], "yes");
  EXPECT_EQ(row["pin"], "no");
  EXPECT_EQ(row["in_flight"], 4);
}

TEST(Bench, SlicesApartTravelInMessagesOfTheirOwn) {
  const auto messages = [](const std::vector<std::string>& more) {
    const std::vector<std::string> bench = {"ps-bench",    "push-pull", "--slice",  "4KiB",
                                            "--count",     "16",        "--rounds", "2",
                                            "--staleness", "0",         "--json"};
    std::map<std::string, double> by_row;
    const std::string out = RunProgram(bench + more).out;
    for (const absl::string_view line : absl::StrSplit(out, '\n', absl::SkipEmpty())) {
      const Json row = Json::parse(line.begin(), line.end());
      by_row[row["case"].get<std::string>().substr(0, 4)] = row["messages"];
      EXPECT_EQ(row.value("apart", "no"), more.empty() ? "no" : "yes");
    }
    return by_row;
  };
  const auto together = messages({}), apart = messages({"--apart"});
  for (const char* row : {"push", "pull", "both"}) {
    EXPECT_LT(together.at(row), 16) << row;
    EXPECT_GE(apart.at(row), 16) << row;
  }
}

TEST(Bench, MoreShardsThanCoresAreRefused) {
  const Ended ended = RunProgram({"ps-bench", "apply", "--shards", "1024"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--shards 1024: a shard needs a core of its own"));
}

}  // namespace
}  // namespace psgd
