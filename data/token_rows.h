// Texts as rows of tokens, in a vocabulary that begins with tokens of no text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "data/byte_pairs.h"

namespace psgd {

// The first tokens of a vocabulary. The tokens of texts follow.
enum SpecialToken { kPaddingToken = 0, kBeginToken = 1, kEndToken = 2, kSpecialTokens = 3 };

// Learns the tokens of texts, so that the vocabulary has at most `vocabulary` tokens. 0: bytes
// instead of byte pairs.
BytePairs LearnTokens(std::span<const absl::string_view> texts, int vocabulary);

// The number of tokens, the special ones too.
inline int VocabularyOf(const BytePairs& encoder) { return encoder.size() + kSpecialTokens; }

// Rows of any length, one after another.
class TokenRows {
 public:
  size_t size() const { return ends_.size(); }
  // How many texts were longer than their rows.
  size_t cut() const { return cut_; }
  // REQUIRES: index < size().
  std::span<const Token> Row(size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::span(tokens_).subspan(begin, ends_[index] - begin);
  }

  // Fills `out` with a row, padded. REQUIRES: `out` is no shorter than the row; index < size().
  void Read(size_t index, std::span<int32_t> out) const;

  // Adds a row of the first `length` tokens of a text.
  void Add(absl::string_view text, int length, BytePairs* encoder);
  // The same, with the end token behind them if there is room.
  void AddWithEnd(absl::string_view text, int length, BytePairs* encoder);

 private:
  std::vector<Token> tokens_;
  std::vector<size_t> ends_;
  size_t cut_ = 0;
};

// For people, if texts were cut. Else empty. `length` is what the config's `key` says.
std::string CutText(size_t cut, size_t texts, absl::string_view key, int length);

}  // namespace psgd
