// A part of a YAML tree as text on one line, as `--set key=VALUE` takes it.
#pragma once

#include <string>

#include "experiment/config/yaml_tree.h"

namespace psgd {

std::string FlowYaml(const YamlTree& tree, uint32_t node);

}  // namespace psgd
