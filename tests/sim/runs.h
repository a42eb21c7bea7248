// What the tests of the simulator share.
#pragma once

#include <string>

#include "tests/sim/cluster.h"

namespace psgd::sim {

// Empty when all is well; otherwise what to read: the seed, the breaches, the last things that
// happened.
std::string Failure(const Scenario& scenario);
std::string WhatHappened(const Scenario& scenario, const Outcome& traced);
// Others that hold shards, which move and are cut short all the time.
void AddServers(Scenario* scenario);
void PullChanges(Scenario* scenario);

}  // namespace psgd::sim
