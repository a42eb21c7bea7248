// Builds one case of the op suite: inputs, ops, then the reverse pass.
#pragma once

#include <functional>
#include <string>

#include "common/status.h"
#include "tests/unit/engine/op_cases.h"

namespace psgd::testing {

class CaseBuilder {
 public:
  CaseBuilder(std::string name, double bound);

  TensorId Input(Shape shape, bool wants_gradient = true);
  // A statistic with positive values, as a variance.
  TensorId Positive(Shape shape);
  // Whole numbers from 0 to kIndexLimit - 1.
  TensorId Indices(Shape shape);
  TensorId Labels(Shape shape, int classes);
  Graph* graph() { return &case_.graph; }

  // The tensor that an op made. A failure fails the test.
  TensorId Check(const absl::StatusOr<TensorId>& made);

  OpCase Finish(const absl::StatusOr<TensorId>& output);

 private:
  OpCase case_;
};

// A case of an op with one input. In fp32 only the op's own roundings differ.
OpCase UnaryCase(const char* name, Shape x,
                 const std::function<absl::StatusOr<TensorId>(Graph*, TensorId)>& op,
                 double bound = 1e-6);

// Append the cases of one theme.
void AddElementwiseCases(std::vector<OpCase>* cases);
void AddImageCases(std::vector<OpCase>* cases);
void AddLayerCases(std::vector<OpCase>* cases);
void AddMovingCases(std::vector<OpCase>* cases);
void AddSequenceCases(std::vector<OpCase>* cases);

}  // namespace psgd::testing
