// Reads samples of rows, which have numbers, and a label or targets.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "data/dataset.h"

namespace psgd {

struct RowSample {
  std::vector<float> values;
  int32_t label = -7;
  std::vector<float> targets;
};

inline RowSample RowOf(const Dataset& set, size_t index) {
  const SampleShape shape = set.shape();
  RowSample row;
  row.values.resize(shape.elements());
  row.targets.resize(static_cast<size_t>(shape.targets));
  EXPECT_TRUE(set.Read({0, index},
                       {.values = row.values, .labels = {&row.label, 1}, .targets = row.targets})
                  .ok());
  return row;
}

}  // namespace psgd
