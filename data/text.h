// Text as a stream of bytes, cut into sequences for the prediction of the next byte.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/status.h"
#include "data/dataset.h"

namespace psgd {

struct TextOptions {
  // A file, or a folder: its regular files (links are left out) one after the other, by their
  // names.
  std::string path;
  int length = 128;            // tokens of a sequence
  double test_fraction = 0.1;  // of the bytes, at the end
};

struct TextSets {
  std::shared_ptr<const TokenDataset> train;
  std::shared_ptr<const TokenDataset> test;
};

// Loads the text into memory and splits it at byte (1 - test_fraction) x size. Sequence i of a part
// has its bytes from i x length on as tokens; the label of a token is the byte that follows. What
// is left at the end of a part, too short for a sequence, is not used. Errors name the file and
// what to do.
absl::StatusOr<TextSets> LoadText(const TextOptions& options);

}  // namespace psgd
