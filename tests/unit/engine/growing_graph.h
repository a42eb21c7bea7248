// A graph that a test makes op by op.
#pragma once

#include <utility>

#include <gtest/gtest.h>

#include "engine/graph/differentiate.h"

namespace psgd::testing {

class GrowingGraph : public ::testing::Test {
 protected:
  TensorId Input(const char* name, Shape shape) {
    return graph_.AddTensor(
        {.name = name, .shape = std::move(shape), .wants_gradient = true, .external = true});
  }
  void Differentiate(TensorId y) {
    const TensorId seed = graph_.AddTensor("seed", graph_.shape(y));
    const GradientSeed seeds[] = {{y, seed}};
    ASSERT_TRUE(psgd::Differentiate(&graph_, seeds).ok());
  }

  Graph graph_;
};

}  // namespace psgd::testing
