#include "train/progress_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>

namespace psgd {
namespace {

TEST(ProgressLog, SaysEveryTenSecondsHowTrainingGoes) {
  std::ostringstream said;
  const auto log = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_st>(said));
  log->set_pattern("%v");
  ProgressLog progress(log);
  const Time start = std::chrono::seconds(100);
  for (int second = 0; second < 10; ++second) {
    progress.Add(second + 1, 32, 16, 0.25, start + std::chrono::seconds(second));
  }
  EXPECT_EQ(said.str(), "");
  progress.Add(11, 32, 16, 0.25, start + std::chrono::seconds(10));
  EXPECT_EQ(said.str(), "clock 11: 10 steps in 10.0 s, loss 0.5000, 32 samples/s, 25 % waiting\n");
  progress.Add(12, 32, 64, 0, start + std::chrono::seconds(20));
  EXPECT_THAT(said.str(), testing::HasSubstr("\nclock 12: 1 steps in 10.0 s, loss 2.0000, "));
}

}  // namespace
}  // namespace psgd
