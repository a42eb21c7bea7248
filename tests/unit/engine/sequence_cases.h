// Cases of the ops that sequence models are made of.
#pragma once

#include <vector>

#include "tests/unit/engine/op_cases.h"

namespace psgd::testing {

void AppendSequenceCases(std::vector<OpCase>* cases);

}  // namespace psgd::testing
