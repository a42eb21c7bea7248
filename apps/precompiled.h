// Headers that the programs include, compiled once: see common/precompiled.h.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/precompiled.h"
