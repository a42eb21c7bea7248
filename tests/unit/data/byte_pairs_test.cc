#include "data/byte_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/philox.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

BytePairs Learn(std::vector<absl::string_view> texts, int tokens) {
  return BytePairs::Learn(texts, tokens);
}

std::vector<Token> Encoded(BytePairs& pairs, absl::string_view text) {
  std::vector<Token> tokens;
  pairs.Encode(text, &tokens);
  return tokens;
}

std::string Decoded(const BytePairs& pairs, const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += pairs.BytesOf(token);
  return text;
}

// Returns any bytes, of few kinds so that pairs repeat; some are whitespace.
std::string RandomText(uint64_t seed, size_t size, uint32_t kinds) {
  RandomStream random({1, 2}, seed);
  std::string text;
  while (text.size() < size) {
    const uint32_t draw = random.NextBelow(kinds + 2);
    text += draw == kinds ? ' ' : draw == kinds + 1 ? '\n' : static_cast<char>(draw * 37);
  }
  return text;
}

// Words and their counts: low 5, lower 2, newest 6, widest 3, each but the first after a space. By
// hand: `e s` and `s t` occur 9 times, and `e s` is smaller; then `es t` 9 times, `l o` 7 (smaller
// than `o w`), `lo w` 7. Then several pairs occur 6 times: ` low` (the space precedes six of
// seven), ` n`, `n e`, `e w`, `w est`. The left token is 32 in ` low` (right 259) and in ` n`
// (right 110), and the smaller right token wins: n.
TEST(BytePairsTest, MergesWhatIsMostFrequentAsByHand) {
  const std::string text =
      "low low low low low lower lower newest newest newest newest newest newest widest widest "
      "widest";
  BytePairs pairs = Learn({text}, 261);
  std::vector<std::string> learned;
  for (int token = 256; token < pairs.size(); ++token) {
    learned.push_back(pairs.BytesOf(static_cast<Token>(token)));
  }
  EXPECT_THAT(learned, ElementsAre("es", "est", "lo", "low", " n"));
  EXPECT_THAT(Encoded(pairs, "lowest now"), ElementsAre(259, 257, 260, 'o', 'w'));
  EXPECT_THAT(Encoded(pairs, "es t"), ElementsAre(256, ' ', 't'));
}

TEST(BytePairsTest, NeverReachesOverTheBeginningOfAWord) {
  BytePairs pairs = Learn({"a b a b a b a b a b"}, 257);
  // ` a` occurs four times, ` b` five; `a ` and `b ` are not pairs within words.
  EXPECT_EQ(pairs.BytesOf(256), " b");
  EXPECT_EQ(Learn({"a\nb a\tb a b"}, 260).size(), 257);
}

TEST(BytePairsTest, TiesGoToTheSmallerLeftAndThenToTheSmallerRightToken) {
  BytePairs pairs = Learn({"zb zb xb xb xa xa"}, 258);
  EXPECT_EQ(pairs.BytesOf(256), " x");  // 4 times
  // Now `zb`, ` z` (once), ` x b` and ` x a` occur twice.
  EXPECT_EQ(pairs.BytesOf(257), "zb");
  BytePairs third = Learn({"zb zb xb xb xa xa"}, 259);
  EXPECT_EQ(third.BytesOf(258), " xa");
}

TEST(BytePairsTest, AnyBytesComeBack) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const uint32_t kinds = 2 + static_cast<uint32_t>(seed) * 5;
    const std::string learned = RandomText(seed, 5000, kinds);
    BytePairs pairs = Learn({learned}, 256 + static_cast<int>(seed) * 4);
    std::string other = RandomText(seed + 1000, 700, 254);
    for (int byte = 0; byte < 256; ++byte) other += static_cast<char>(byte);
    for (const std::string& text : {learned, other, std::string(), std::string(300, '\0')}) {
      EXPECT_EQ(Decoded(pairs, Encoded(pairs, text)), text) << "seed " << seed;
    }
    EXPECT_LE(Encoded(pairs, learned).size() + seed, learned.size()) << "seed " << seed;
  }
}

// The slow way: all pairs of the whole text are counted again after each merge.
std::vector<std::string> LearnSlowly(const std::vector<std::string>& words, int merges) {
  std::vector<std::vector<int>> text;
  for (const std::string& word : words) text.emplace_back(word.begin(), word.end());
  std::vector<std::string> bytes(256);
  for (int i = 0; i < 256; ++i) bytes[i] = static_cast<char>(i);
  for (int merge = 0; merge < merges; ++merge) {
    std::map<std::pair<int, int>, int> counts;
    for (const auto& word : text) {
      for (size_t i = 1; i < word.size(); ++i) ++counts[{word[i - 1], word[i]}];
    }
    const auto best = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) {
                        return a.second < b.second;
                      })->first;
    for (auto& word : text) {
      for (size_t i = 1; i < word.size(); ++i) {
        if (word[i - 1] != best.first || word[i] != best.second) continue;
        word[i - 1] = 256 + merge;
        word.erase(word.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    bytes.push_back(bytes[best.first] + bytes[best.second]);
  }
  return {bytes.begin() + 256, bytes.end()};
}

TEST(BytePairsTest, CountsThatAreKeptAreThoseOfCountingAnew) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    RandomStream random({3, 4}, seed);
    std::vector<std::string> words;
    std::string text;
    for (int i = 0; i < 300; ++i) {
      std::string word = " ";
      const uint32_t size = 1 + random.NextBelow(12);
      for (uint32_t k = 0; k < size; ++k) {
        word += static_cast<char>('a' + random.NextBelow(2 + static_cast<uint32_t>(seed)));
      }
      words.push_back(word);
      text += word;
    }
    constexpr int kMerges = 60;
    BytePairs pairs = Learn({text}, 256 + kMerges);
    const std::vector<std::string> slowly = LearnSlowly(words, kMerges);
    for (int i = 0; i < kMerges; ++i) {
      EXPECT_EQ(pairs.BytesOf(static_cast<Token>(256 + i)), slowly[static_cast<size_t>(i)])
          << "seed " << seed << ", merge " << i;
    }
  }
}

TEST(BytePairsTest, SeveralTextsAreLearnedTogetherInAnyOrder) {
  const std::string a = RandomText(1, 3000, 6), b = RandomText(2, 3000, 6);
  BytePairs one = Learn({a, b}, 320), two = Learn({b, a}, 320);
  EXPECT_EQ(Encoded(one, a + b), Encoded(two, a + b));
}

TEST(BytePairsTest, TextThatGivesFewerTokensThanWantedIsNoted) {
  EXPECT_EQ(Learn({""}, 300).size(), 256);
  // Words are cut after 64 bytes: 2, 4, ... 64 bytes become one token.
  const std::string same(6400, 'a');
  BytePairs pairs = Learn({same}, 300);
  EXPECT_EQ(pairs.size(), 262);
  EXPECT_EQ(Encoded(pairs, same), std::vector<Token>(100, 261));
  EXPECT_THAT(FewerTokensText(300, 262),
              AllOf(HasSubstr("data.vocabulary is 300"), HasSubstr("gives 262 tokens")));
  EXPECT_EQ(FewerTokensText(300, 300), "");
}

TEST(BytePairsTest, MergesMakeTheSameEncodingAgain) {
  const std::string text = RandomText(3, 3000, 6);
  BytePairs learned = Learn({text}, 320);
  auto again = BytePairs::FromMerges(learned.merges());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->size(), 320);
  EXPECT_EQ(Encoded(*again, text + "new words"), Encoded(learned, text + "new words"));
  const uint32_t unknown = 256u << 16 | 'a';  // a token that no merge made
  EXPECT_THAT(BytePairs::FromMerges({{unknown}}).status().message(), HasSubstr("merge 0"));
}

TEST(BytePairsTest, TextWithoutWhitespaceIsLearnedToo) {
  std::string text;
  RandomStream random({5, 6}, 0);
  while (text.size() < 200'000) text += static_cast<char>('a' + random.NextBelow(26));
  BytePairs pairs = Learn({text}, 1000);
  EXPECT_EQ(Decoded(pairs, Encoded(pairs, text)), text);
}

}  // namespace
}  // namespace psgd
