#include "dashboard/run_history.h"

#include <gtest/gtest.h>

namespace psgd {
namespace {

Record Progress(double seconds) { return {{"kind", "progress"}, {"seconds", seconds}}; }

std::vector<double> SecondsOf(const RunHistory& history) {
  std::vector<double> seconds;
  for (const Record& record : Record::parse(history.Json()))
    seconds.push_back(NumberIn(record, "seconds"));
  return seconds;
}

TEST(RunHistory, KeepsAllOfAShortRunInOrder) {
  RunHistory history({});
  history.Add(Progress(1));
  history.Add({{"kind", "event"}, {"seconds", 1.5}, {"text", "x"}});
  history.Add(Progress(2));
  EXPECT_EQ(SecondsOf(history), (std::vector<double>{1, 1.5, 2}));
}

TEST(RunHistory, ThinsOutALongOneFromItsOldEnd) {
  RunHistory history({.progress = 100});
  for (int i = 0; i < 10000; ++i) history.Add(Progress(i));
  const std::vector<double> seconds = SecondsOf(history);
  EXPECT_LE(seconds.size(), 100u);
  EXPECT_GE(seconds.size(), 70u);
  EXPECT_EQ(seconds.front(), 0);
  EXPECT_EQ(seconds.back(), 9999);
  EXPECT_TRUE(std::is_sorted(seconds.begin(), seconds.end()));
}

TEST(RunHistory, TimeGoesOnOverARestart) {
  RunHistory history({});
  history.Add(Progress(100));
  const std::string told = history.Add(Progress(3));
  EXPECT_EQ(Record::parse(told)["seconds"], 103);
  history.Add(Progress(2.9));  // from another thread, slightly earlier
  EXPECT_EQ(SecondsOf(history), (std::vector<double>{100, 103, 102.9}));
}

}  // namespace
}  // namespace psgd
