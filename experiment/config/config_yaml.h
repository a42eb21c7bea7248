// Reads and writes the configuration as YAML. Reflection maps YAML to proto/config.proto, so only
// the schema knows a key, its unit and its range.
//
//   Config config = LoadConfig(path);  ApplySet("train.epochs=2", &config);
//   config = ResolveDefaults(config);  ValidateConfig(config);
//
// Parsing checks each key alone (known, well-typed, in range, given once). ValidateConfig checks
// the keys together, after --set. docs/configuration.md lists the keys.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "proto/config.pb.h"

namespace psgd {

// Returns only the keys that the file or `set` gives. `set`: as of ApplySet; the file's values of
// these keys are not read, so they may be wrong. Errors name every wrong key, each in a line that
// begins with "path:line:column: ". `notes`: gets a text for people for each choice in the file,
// such as an optimizer, that a key in `set` replaces by another one.
absl::StatusOr<Config> LoadConfig(const std::string& path, const std::vector<std::string>& set = {},
                                  std::vector<std::string>* notes = nullptr);

// As LoadConfig, from text. `name_for_errors` replaces the path.
absl::StatusOr<Config> ParseConfig(std::string text, std::string name_for_errors,
                                   const std::vector<std::string>& set = {},
                                   std::vector<std::string>* notes = nullptr);

// Applies one `--set` argument, "a.b.c=value". The value is YAML, but a string is taken literally.
// A mapping, list or bare word replaces the old value of the key. An empty value or `null` restores
// the key's default. Errors begin with "--set a.b.c=value: " and leave *config unchanged.
absl::Status ApplySet(const std::string& assignment, Config* config);

// Fills in every default: values, sections, and the first member of each choice (codec none,
// optimizer sgd, schedule constant). Keys that an element of a list leaves out stay out.
Config ResolveDefaults(Config config);

// Returns the resolved config as YAML with every key. Parsing that YAML gives
// ResolveDefaults(config).
std::string FormatConfig(const Config& config);

// Checks all that must hold before a run starts: every range, and the keys together. The error
// names every problem by its key, one per line.
absl::Status ValidateConfig(const Config& config);

// The message that holds a key, and the key's field in that message.
struct ConfigKey {
  google::protobuf::Message* message = nullptr;
  const google::protobuf::FieldDescriptor* field = nullptr;
};

// Finds the field that a dotted path, such as compression.push.topk.density, names.
// Creates the sections along the path in `root`. An unknown key is an error that suggests a similar
// key.
absl::StatusOr<ConfigKey> FindConfigKey(const std::string& path, google::protobuf::Message* root);

// Sets the key at `place`, called `path`, to a value as of --set. Errors begin with `name`.
absl::Status SetKey(const std::string& name, const std::string& path, const std::string& value,
                    const ConfigKey& place);

}  // namespace psgd
