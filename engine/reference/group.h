// A group that adds up gradients in plain loops. Its parts wait for each other at every bucket.
#pragma once

#include <memory>
#include <vector>

#include "engine/runtime/backend.h"

namespace psgd::reference {

std::vector<std::unique_ptr<GroupPart>> MakeGroup(size_t parts);

}  // namespace psgd::reference
