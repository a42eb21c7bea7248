// Text as a stream of tokens, cut into sequences for the prediction of the next one.
#pragma once

#include <string>

#include "common/status.h"
#include "data/sets.h"

namespace psgd {

struct TextOptions {
  // A file, or a folder: its regular files (links are left out) one after the other, by their
  // names. Those that are gzip are unpacked.
  std::string path;
  int length = 128;            // tokens of a sequence
  double test_fraction = 0.1;  // of the bytes, at the end
  int vocabulary = 0;          // tokens of data/byte_pairs.h; 0: the bytes themselves
};

// Splits the text at byte (1 - test_fraction) x size. As bytes it stays in its files, where these
// are not gzip: a sample is read when it is asked for. Byte pairs are learned from the first part,
// and all tokens are in memory. Sequence i of a part has its tokens from i x length on; the label
// of a token is the one that follows. What is left at the end of a part, too short for a sequence,
// is not used. Errors name the file and what to do.
absl::StatusOr<TokenSets> LoadText(const TextOptions& options);

}  // namespace psgd
