// Runs that people wrote down keep every promise, with the seed that they name and with others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/sim/case_file.h"
#include "tests/sim/runs.h"

namespace psgd::sim {
namespace {

using ::testing::HasSubstr;

TEST(SimulationCases, KeepEveryPromise) {
  constexpr uint64_t kSeedsOfCase = 8;
  size_t cases = 0;
  for (const auto& file : std::filesystem::directory_iterator(PSGD_SIM_CASES)) {
    SCOPED_TRACE(file.path().string());
    const auto written = LoadCase(file.path());
    ASSERT_TRUE(written.ok()) << written.status();
    ++cases;
    bool found_out = false;
    for (uint64_t seed = written->seed(); seed < written->seed() + kSeedsOfCase; ++seed) {
      const auto scenario = ScenarioOf(*written, seed);
      ASSERT_TRUE(scenario.ok()) << scenario.status();
      const Outcome outcome = Cluster(*scenario, true).Run();
      if (!outcome.breaches.empty()) ADD_FAILURE() << WhatHappened(*scenario, outcome);
      found_out |= !outcome.found_out.empty();
    }
    EXPECT_EQ(found_out, written->expect() == SimCase::FOUND_OUT);
  }
  EXPECT_GE(cases, 12u);
}

absl::Status ErrorOf(const std::string& text) {
  const auto written = ParseCase(text, "a.yaml");
  return written.ok() ? ScenarioOf(*written, 1).status() : written.status();
}

TEST(SimulationCases, SayWhatIsWrongWithThem) {
  EXPECT_TRUE(ErrorOf("").ok());
  const std::pair<const char*, const char*> kWrong[] = {
      {"evnets: []", "did you mean \"events\""},
      {"events: [{at: 1s, kill: worker 0, pause: server}]", "exclude each other"},
      {"events: [{at: 1s}]", "says nothing that happens"},
      {"events: [{at: 1s, kill: server}]", "acknowledge: memory"},
      {"events: [{at: 1s, kill: shard 1}]", "is none of worker 0"},
      {"events: [{at: 1s, pause: server 3}]", "there are servers 1 to 1"},
      {"events: [{at: 1s, power: worker 1}]", "kill it"},
      {"events: [{at: 1s, pause: worker 0, writing_image: true}]", "goes with kill and power"},
      {"events: [{at: 1s, cut: worker 0, from: shard 9}]", "there are 3 shards"},
      {"config: {compression: {push: onebit}}", "know none and topk"},
      {"rates: {drop: 2}", "drop"},
  };
  for (const auto& [text, why] : kWrong)
    EXPECT_THAT(std::string(ErrorOf(text).message()), HasSubstr(why)) << text;
}

TEST(SimulationCases, WhatIsWrittenDownHappens) {
  const auto written = ParseCase(R"(
      config: {cluster: {workers: 2, shards: 1}, durability: {acknowledge: fsync}}
      image_after: 10KiB
      events:
        - {at: 20ms, power: server, writing_image: true}
        - {at: 30ms, pause: server, for: 300ms}
        - {at: 50ms, clock: worker 1, ahead: 2s}
        - {at: 60ms, cut: worker 0, for: 100ms}
        - {at: 70ms, kill: worker 1}
        - {at: 80ms, start: worker}
        - {at: 90ms, drop: 0.5, for: 50ms}
  )",
                                 "a.yaml");
  ASSERT_TRUE(written.ok()) << written.status();
  const auto scenario = ScenarioOf(*written, 1);
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const Outcome outcome = Cluster(*scenario, true).Run();
  EXPECT_EQ(outcome.breaches, std::vector<std::string>());
  EXPECT_EQ(outcome.power_losses, 1u);
  EXPECT_EQ(outcome.server_pauses, 1u);
  EXPECT_GT(outcome.resent, 0u);
}

}  // namespace
}  // namespace psgd::sim
