// Checks of the times that a run reports.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/system/run_test.h"

namespace psgd {

// For a run that several servers led, one after the other.
inline void ExpectTimesGoOn(const std::vector<Json>& progress, const Json& summary) {
  double last = 0;
  for (const Json& record : progress) {
    EXPECT_GE(record["seconds"].get<double>(), last) << record;
    last = record["seconds"];
  }
  const double wall = summary["wall_seconds"], trained = summary["train_seconds"];
  EXPECT_GE(wall, last - 0.01);
  EXPECT_GE(wall, trained - 0.01);
  EXPECT_NEAR(summary["samples_per_second"].get<double>() * trained,
              progress.back()["samples"].get<double>(), 1);
}

}  // namespace psgd
