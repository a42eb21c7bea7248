// Byte-pair encoding (Sennrich et al., 2016) over bytes, so that there is no text without tokens:
// tokens 0 to 255 are the bytes, each further one is two tokens that often follow each other.
//
// Text is first cut into words: a run of whitespace with what follows it up to the next whitespace,
// and no more than 64 bytes. Tokens never reach over the end of a word. Then, again and again, the
// pair of tokens that comes most often becomes a token wherever it comes, from the left. Pairs are
// counted wherever two tokens touch, in `aaa` twice; of pairs as frequent that of the smaller left
// token is taken, then that of the smaller right one. So the same text gives the same tokens on
// every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

using Token = uint16_t;

// Not thread-safe: remembers words that it has encoded.
class BytePairs {
 public:
  // The bytes alone.
  BytePairs();
  // `tokens` of them, learned from all texts together. An error says how many there could be.
  // REQUIRES: tokens is from 256 to 65536.
  static absl::StatusOr<BytePairs> Learn(std::span<const absl::string_view> texts, int tokens);

  int size() const { return static_cast<int>(bytes_.size()); }
  // What a token stands for. REQUIRES: token < size().
  const std::string& BytesOf(Token token) const { return bytes_[token]; }

  // Appends the tokens of a text, with any bytes in it.
  void Encode(absl::string_view text, std::vector<Token>* tokens);

 private:
  void Add(Token left, Token right);
  std::vector<Token> EncodeWord(absl::string_view word) const;

  std::vector<std::string> bytes_;                // by token
  std::unordered_map<uint32_t, Token> token_of_;  // by pair
  std::unordered_map<std::string, std::vector<Token>> known_words_;
};

}  // namespace psgd
