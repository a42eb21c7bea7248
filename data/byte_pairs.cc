#include "data/byte_pairs.h"

#include <limits>
#include <queue>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

constexpr int kBytes = 256;
// Bounds the cost of a merge in text without whitespace.
constexpr size_t kLongestWord = 64;
// Bounds the memory for text whose words do not repeat.
constexpr size_t kMostKnownWords = size_t{1} << 18;

using Pair = uint32_t;  // the left token above the right one: in the order of the rule for ties

Pair PairOf(Token left, Token right) { return Pair{left} << 16 | right; }

std::vector<Token> BytesIn(absl::string_view word) {
  std::vector<Token> tokens;
  tokens.reserve(word.size());
  for (const char c : word) tokens.push_back(static_cast<uint8_t>(c));
  return tokens;
}

template <typename Visit>
void ForEachWord(absl::string_view text, Visit visit) {
  const auto space = [&](size_t i) { return absl::ascii_isspace(static_cast<uint8_t>(text[i])); };
  size_t begin = 0;
  for (size_t i = 1; i <= text.size(); ++i) {
    const bool cut = i == text.size() || (space(i) && !space(i - 1)) || i - begin == kLongestWord;
    if (!cut) continue;
    visit(text.substr(begin, i - begin));
    begin = i;
  }
}

// Calls visit(i, whether tokens i and i + 1 are that pair) for each token or pair, from the left.
template <typename Visit>
void ForEachPart(const std::vector<Token>& tokens, Pair pair, Visit visit) {
  for (size_t i = 0; i < tokens.size();) {
    const bool found = i + 1 < tokens.size() && PairOf(tokens[i], tokens[i + 1]) == pair;
    visit(i, found);
    i += found ? 2 : 1;
  }
}

void Merge(Pair pair, Token merged, std::vector<Token>* tokens) {
  size_t kept = 0;
  ForEachPart(*tokens, pair,
              [&](size_t i, bool found) { (*tokens)[kept++] = found ? merged : (*tokens)[i]; });
  tokens->resize(kept);
}

// The distinct words of a text as tokens, with counts of their pairs. Merges keep the counts exact:
// a merge touches only the words that have the pair.
class WordPairs {
 public:
  explicit WordPairs(std::span<const absl::string_view> texts) {
    absl::flat_hash_map<absl::string_view, int64_t> counts;
    for (const absl::string_view text : texts) {
      ForEachWord(text, [&](absl::string_view word) { ++counts[word]; });
    }
    for (const auto& [word, count] : counts) {
      const auto index = static_cast<uint32_t>(words_.size());
      words_.push_back({BytesIn(word), count});
      AddPairs(index, /*with=*/-1);
    }
    for (const auto& [pair, known] : pairs_) queue_.push({known.count, ~pair});
  }

  // Sets the most frequent pair, the smallest among equals. False if no pair occurs twice.
  bool Next(Pair* pair) {
    while (!queue_.empty()) {
      const auto [count, inverted] = queue_.top();
      queue_.pop();
      *pair = ~inverted;
      const int64_t now = pairs_[*pair].count;
      if (now == count && count > 1) return true;
      // After a merge, the counts of the pairs that it made can only fall. This is noticed here.
      if (now < count && now > 1) queue_.push({now, inverted});
    }
    return false;
  }

  void Take(Pair pair, Token merged) {
    const std::vector<uint32_t> words = std::exchange(pairs_[pair].words, {});
    for (const uint32_t index : words) {
      RemovePairs(words_[index], pair);
      Merge(pair, merged, &words_[index].tokens);
      AddPairs(index, merged);
    }
    for (const Pair made : std::exchange(made_, {})) queue_.push({pairs_[made].count, ~made});
  }

 private:
  struct Word {
    std::vector<Token> tokens;
    int64_t count = 0;
  };
  struct Known {
    int64_t count = 0;
    std::vector<uint32_t> words;  // all words that have the pair; some may have lost it
  };

  // Removes the pairs that a merge ends: the pair, and its tokens' pairs with their neighbors.
  void RemovePairs(const Word& word, Pair pair) {
    bool after = false;
    ForEachPart(word.tokens, pair, [&](size_t i, bool found) {
      if (i > 0 && (after || found)) {
        pairs_[PairOf(word.tokens[i - 1], word.tokens[i])].count -= word.count;
      }
      if (found) pairs_[pair].count -= word.count;
      after = found;
    });
  }

  // Adds those of the word's pairs that have the token `with`; -1: all pairs.
  void AddPairs(uint32_t index, int with) {
    const auto& [tokens, count] = words_[index];
    for (size_t i = 1; i < tokens.size(); ++i) {
      if (with >= 0 && tokens[i - 1] != with && tokens[i] != with) continue;
      const Pair pair = PairOf(tokens[i - 1], tokens[i]);
      Known& known = pairs_[pair];
      known.count += count;
      if (known.words.empty() && with >= 0) made_.push_back(pair);
      if (known.words.empty() || known.words.back() != index) known.words.push_back(index);
    }
  }

  std::vector<Word> words_;
  absl::flat_hash_map<Pair, Known> pairs_;
  std::vector<Pair> made_;  // by the current merge
  // The count at the time of queuing, and the inverted pair: the largest comes first.
  std::priority_queue<std::pair<int64_t, Pair>> queue_;
};

}  // namespace

BytePairs::BytePairs() {
  for (int byte = 0; byte < kBytes; ++byte) bytes_.emplace_back(1, static_cast<char>(byte));
}

void BytePairs::Add(Token left, Token right) {
  merges_.push_back(PairOf(left, right));
  token_of_[PairOf(left, right)] = static_cast<Token>(bytes_.size());
  bytes_.push_back(bytes_[left] + bytes_[right]);
}

absl::StatusOr<BytePairs> BytePairs::FromMerges(std::span<const uint32_t> merges) {
  BytePairs made;
  for (const uint32_t pair : merges) {
    const auto left = static_cast<Token>(pair >> 16), right = static_cast<Token>(pair);
    const auto size = static_cast<size_t>(made.size());
    if (size > std::numeric_limits<Token>::max() || left >= size || right >= size ||
        made.bytes_[left].size() + made.bytes_[right].size() > kLongestWord) {
      return DataLossError("the vocabulary's merge ", made.merges_.size(), " is of tokens ", left,
                           " and ", right, ", which do not make one; is the record damaged?");
    }
    made.Add(left, right);
  }
  return made;
}

BytePairs BytePairs::Learn(std::span<const absl::string_view> texts, int tokens) {
  BytePairs made;
  WordPairs words(texts);
  for (Pair pair = 0; made.size() < tokens && words.Next(&pair);) {
    words.Take(pair, static_cast<Token>(made.size()));
    made.Add(static_cast<Token>(pair >> 16), static_cast<Token>(pair));
  }
  return made;
}

std::string FewerTokensText(int wanted, int learned) {
  if (learned >= wanted) return "";
  return absl::StrCat("data.vocabulary is ", wanted, ", and the training text gives ", learned,
                      " tokens, which the run takes: no other pair of them comes twice within "
                      "words");
}

// Merges in the order in which they were learned give the same result as learning. A merge never
// makes a pair that was learned before it, so the earliest pair in the word is always next.
std::vector<Token> BytePairs::EncodeWord(absl::string_view word) const {
  std::vector<Token> tokens = BytesIn(word);
  while (true) {
    size_t at = 0;
    int next = size();
    for (size_t i = 1; i < tokens.size(); ++i) {
      const auto found = token_of_.find(PairOf(tokens[i - 1], tokens[i]));
      if (found == token_of_.end() || found->second >= next) continue;
      next = found->second;
      at = i;
    }
    if (next == size()) return tokens;
    Merge(PairOf(tokens[at - 1], tokens[at]), static_cast<Token>(next), &tokens);
  }
}

void BytePairs::Encode(absl::string_view text, std::vector<Token>* tokens) {
  ForEachWord(text, [&](absl::string_view word) {
    auto known = known_words_.find(word);
    if (known == known_words_.end()) {
      if (known_words_.size() >= kMostKnownWords) {
        known_words_.clear();
        known_tokens_.clear();
      }
      const std::vector<Token> made = EncodeWord(word);
      const Known tokens_of_word = {static_cast<uint32_t>(known_tokens_.size()),
                                    static_cast<uint32_t>(made.size())};
      known_tokens_.insert(known_tokens_.end(), made.begin(), made.end());
      known = known_words_.insert({std::string(word), tokens_of_word}).first;
    }
    const auto begin = known_tokens_.begin() + known->second.begin;
    tokens->insert(tokens->end(), begin, begin + known->second.count);
  });
}

}  // namespace psgd
