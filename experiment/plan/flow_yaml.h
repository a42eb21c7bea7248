// Writes part of a YAML tree as one line, in the form of `--set key=VALUE`.
#pragma once

#include <string>

#include "experiment/config/yaml_tree.h"

namespace psgd {

std::string FlowYaml(const YamlTree& tree, uint32_t node);

}  // namespace psgd
