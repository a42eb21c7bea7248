// YAML text as a tree with positions, within fixed limits. Any file is read or refused quickly,
// with one error and no exception. Only yaml_tree.cc uses the YAML library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

inline constexpr size_t kMaxYamlBytes = size_t{1} << 20;
inline constexpr size_t kMaxYamlNodes = size_t{1} << 16;
inline constexpr size_t kMaxYamlDepth = 32;

// A place in the text: line, and byte in the line, both from 0.
struct YamlMark {
  int line = 0;
  int byte = 0;
};

// The origin of a text, for errors.
struct YamlSource {
  std::string name;  // a file, or "--set key=value"
  std::string text;
  bool with_position = true;  // a command line needs no line and column

  // "name:line:column: message": lines and columns from 1, columns in characters.
  absl::Status ErrorAt(YamlMark mark, absl::string_view message) const;
};

struct YamlNode {
  enum Kind { kNull, kScalar, kList, kMap };
  Kind kind = kNull;
  YamlMark mark;
  bool quoted = false;             // kScalar: "64" is a string where 64 is a number
  std::string text;                // kScalar
  std::vector<uint32_t> children;  // kList: items; kMap: key, value, key, value...
};

// Nodes refer to each other by index, so aliases share a node and freeing a tree needs no
// recursion.
struct YamlTree {
  std::vector<YamlNode> nodes;
  uint32_t root = 0;
};

// Parses one document. Empty text gives a single kNull node.
absl::StatusOr<YamlTree> ParseYaml(const YamlSource& source);

}  // namespace psgd
