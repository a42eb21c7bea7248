// Pairs of a text and what it becomes, for the prediction of the latter.
#pragma once

#include <string>

#include "common/status.h"
#include "data/sets.h"

namespace psgd {

// The first tokens of a vocabulary; those of the texts follow.
enum SpecialToken { kPaddingToken = 0, kBeginToken = 1, kEndToken = 2, kSpecialTokens = 3 };

struct TranslationOptions {
  // Lines of a source and its target with a tab between; what follows a second tab is left out. May
  // be gzip.
  std::string path;
  int source_length = 64;  // tokens of a sample
  int target_length = 64;
  double test_fraction = 0.1;  // of the lines, at the end
  // Tokens there are: the special ones, and those of data/byte_pairs.h, learned from sources and
  // targets of the training lines; 0: bytes for the latter.
  int vocabulary = 0;
};

// Loads all pairs into memory. A sample is `source_length` tokens of the source, cut or padded, and
// then `target_length` of what the decoder sees: the begin token and the target. The labels are
// those of the latter part: the target and the end token, so that each label follows what was seen
// of the target; those of padding are -1. A target that is too long is cut, and has no end. Errors
// name the file, the line and what to do.
absl::StatusOr<TokenSets> LoadTranslation(const TranslationOptions& options);

}  // namespace psgd
