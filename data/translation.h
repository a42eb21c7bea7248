// Pairs of a source and a target text, to predict the target.
#pragma once

#include "common/status.h"
#include "data/dataset.h"
#include "proto/config.pb.h"

namespace psgd {

// data.path has lines of a source and its target, separated by a tab. Text after a second tab is
// ignored. May be gzip. `vocabulary`: the number of tokens: the special ones, and those of
// data/byte_pairs.h, learned from sources and targets of the training lines; 0: bytes instead of
// byte pairs.
//
// Loads all pairs into memory. A sample is `source_length` tokens of the source, cut or padded,
// then `target_length` tokens that the decoder reads: the begin token and the target. The labels
// belong to this second part: the target and the end token, so that each label follows the target
// tokens read so far. Labels of padding are -1. A target that is too long is cut, and has no end
// token. Errors name the file, the line and what to do.
absl::StatusOr<TrainAndTest> LoadTranslation(const DataConfig& config, int vocabulary);

}  // namespace psgd
