#include "tests/sim/runs.h"

#include "absl/strings/str_cat.h"

namespace psgd::sim {

std::string WhatHappened(const Scenario& scenario, const Outcome& traced) {
  std::string text = absl::StrCat(Describe(scenario), "\n");
  for (const std::string& line : traced.trace)
    absl::StrAppend(&text, "  ", line.substr(0, 240), "\n");
  for (const std::string& breach : traced.breaches) absl::StrAppend(&text, "BREACH ", breach, "\n");
  return text;
}

std::string Failure(const Scenario& scenario) {
  if (Cluster(scenario, false).Run().breaches.empty()) return "";
  return WhatHappened(scenario, Cluster(scenario, true).Run());
}

void AddServers(Scenario* scenario) {
  const bool journal = scenario->config.durability().acknowledge() == DurabilityConfig::JOURNAL;
  scenario->joined = 2;
  scenario->moves = 0.3;
  scenario->leaves = 2;
  scenario->broken_connections = 3;
  scenario->broken_calls = 0.05;
  scenario->late_calls = 0.05;
  scenario->joined_crashes = journal ? 2 : 0;
  scenario->killed_moves = journal ? 0.02 : 0;
}

void PullChanges(Scenario* scenario) {
  scenario->config.mutable_compression()->mutable_push()->mutable_topk()->set_density(0.01);
  scenario->config.mutable_compression()->mutable_pull()->mutable_delta();
}

}  // namespace psgd::sim
