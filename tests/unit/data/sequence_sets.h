// Sets of sequences, opened by a config and read.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/open_data.h"

namespace psgd {

struct Sequence {
  std::vector<int32_t> tokens, labels;
};

inline Sequence ReadSequence(const Dataset& set, size_t index) {
  Sequence read = {std::vector<int32_t>(set.shape().elements()),
                   std::vector<int32_t>(set.shape().labels())};
  const absl::Status status = set.Read({0, index}, {.tokens = read.tokens, .labels = read.labels});
  EXPECT_TRUE(status.ok()) << status;
  return read;
}

// `more`: further keys of the data section, as protobuf text.
inline absl::StatusOr<DataSets> OpenFormat(const std::string& format, const std::string& path,
                                           const std::string& more) {
  DataConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "format: " + format + " path: \"" + path + "\" " + more, &config));
  return OpenData(config, 1);
}

}  // namespace psgd
