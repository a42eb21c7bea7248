// Configuration as people write it: YAML onto proto/config.proto by reflection, so that the schema
// is the only place that knows a key, its unit and its range.
//
//   Config config = LoadConfig(path);  ApplySet("train.epochs=2", &config);
//   config = ResolveDefaults(config);  ValidateConfig(config);
//
// Parsing checks each key on its own (known, well-typed, in range, given once); ValidateConfig
// checks what keys mean together, after --set had its say. docs/configuration.md lists the keys.
#pragma once

#include <string>

#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

// The keys that the file gives, and no others. Errors begin with "path:line:column: ".
absl::StatusOr<Config> LoadConfig(const std::string& path);

// As LoadConfig, from text; `name_for_errors` stands where the path would.
absl::StatusOr<Config> ParseConfig(std::string text, std::string name_for_errors);

// Applies one `--set` argument, "a.b.c=value". The value is written as in YAML, except that a
// string is taken as it is. A mapping, list or bare word replaces what the key held; an empty value
// or `null` gives the key its default. Errors begin with "--set a.b.c=value: " and leave *config
// unchanged.
absl::Status ApplySet(const std::string& assignment, Config* config);

// Fills in everything that has a default: values, sections, and for each choice its first member
// (codec none, optimizer sgd, schedule constant). In lists, keys that an element leaves out stay
// out.
Config ResolveDefaults(Config config);

// The resolved config as YAML with every key spelled out. Parsing it gives ResolveDefaults(config).
std::string FormatConfig(const Config& config);

// Everything that must hold before a run starts: all ranges, and what keys mean together. The error
// names every problem found, one a line, by key.
absl::Status ValidateConfig(const Config& config);

}  // namespace psgd
