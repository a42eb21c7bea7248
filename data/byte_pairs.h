// Byte-pair encoding (Sennrich et al., 2016) over bytes, so that every text has tokens. Tokens 0 to
// 255 are the bytes; each further token is two tokens that often follow each other.
//
// Text is first cut into words. A word is a run of whitespace and what follows up to the next
// whitespace, at most 64 bytes. No token crosses the end of a word. Then, again and again, the most
// frequent pair of tokens becomes a token wherever it occurs, from the left. Pairs are counted
// wherever two tokens touch: `aaa` has two. Among equally frequent pairs, the smaller left token
// wins, then the smaller right token. So the same text gives the same tokens on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

using Token = uint16_t;

// The least data.vocabulary: the bytes, the special tokens of data/token_rows.h, and one merge.
inline constexpr int kLeastVocabulary = 260;

// For people, if the texts gave fewer tokens than data.vocabulary asks for. Else empty. `wanted`: 0
// if that was not asked.
std::string FewerTokensText(int wanted, int learned);

// Encodes text. Not thread-safe: it remembers words that it has encoded.
class BytePairs {
 public:
  // Makes the encoding whose tokens are the bytes alone.
  BytePairs();
  // Learns up to `tokens` tokens from all texts together: fewer if no other pair comes twice.
  // REQUIRES: tokens is from 256 to 65536.
  static BytePairs Learn(std::span<const absl::string_view> texts, int tokens);

  // Makes the encoding with these merges, in their order. DataLoss: no encoding has such merges.
  static absl::StatusOr<BytePairs> FromMerges(std::span<const uint32_t> merges);

  // One number for each token after the bytes: its left token times 65536, plus its right one.
  std::span<const uint32_t> merges() const { return merges_; }
  int size() const { return static_cast<int>(bytes_.size()); }
  // Returns the bytes that a token stands for. REQUIRES: token < size().
  const std::string& BytesOf(Token token) const { return bytes_[token]; }

  // Appends the tokens of a text. The text may contain any bytes.
  void Encode(absl::string_view text, std::vector<Token>* tokens);

 private:
  void Add(Token left, Token right);
  std::vector<Token> EncodeWord(absl::string_view word) const;

  struct Known {
    uint32_t begin;  // in known_tokens_
    uint32_t count;
  };

  std::vector<std::string> bytes_;                 // by token
  std::vector<uint32_t> merges_;                   // pairs, in the order of their tokens
  absl::flat_hash_map<uint32_t, Token> token_of_;  // by pair
  absl::flat_hash_map<std::string, Known> known_words_;
  std::vector<Token> known_tokens_;
};

}  // namespace psgd
