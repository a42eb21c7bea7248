#include "tests/sim/world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace psgd::sim {
namespace {

constexpr size_t kTraceTail = 400;

Scenario Planned(const Scenario& scenario) {
  Scenario planned = scenario;
  planned.network.heals_at = EventQueue().now() + kFaultsFor;
  return planned;
}

}  // namespace

World::World(const Scenario& scenario, bool trace)
    : scenario_(Planned(scenario)), oracle_(scenario_), tracing_(trace), start_(queue_.now()) {}

void World::Note(const std::string& what) {
  trace_.push_back(absl::StrCat((queue_.now() - start_).count() / 1000, " us  ", what));
  if (trace_.size() > kTraceTail) trace_.pop_front();
}

}  // namespace psgd::sim
