// Text as a stream of tokens, cut into sequences, to predict each next token.
#pragma once

#include "common/status.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

// data.path is a file, or a folder: its regular files (not links) in the order of their names. Gzip
// files are unpacked. `vocabulary`: tokens of data/byte_pairs.h; 0: the bytes themselves.
//
// Splits the text at byte (1 - test_fraction) x size. With bytes as tokens, text that is not gzip
// stays in its files, and samples are read on demand. With byte pairs, the pairs are learned from
// the first part, and all tokens are in memory. Sequence i of a part has the tokens from i x length
// on. The label of a token is the next token. The end of a part that is too short for a sequence is
// not used. Errors name the file and what to do.
absl::StatusOr<TrainAndTest> LoadText(const DataConfig& config, int vocabulary);

}  // namespace psgd
