// Any bytes are read or refused quickly, with an error that names the source. They never cause an
// exception, a crash or unbounded memory use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "experiment/config/config_yaml.h"
#include "tests/folders.h"

namespace psgd {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Repeat(const std::string& piece, size_t bytes) {
  std::string text;
  while (text.size() + piece.size() <= bytes) text += piece;
  return text;
}

std::string Refusal(const std::string& text) {
  const std::clock_t start = std::clock();  // CPU time, so a busy machine does not matter
  const absl::StatusOr<Config> config = ParseConfig(text, "bad");
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 5) << text.substr(0, 40);  // 0.3 s at worst; room for sanitizers
  EXPECT_FALSE(config.ok()) << text.substr(0, 40);
  EXPECT_THAT(std::string(config.status().message()), StartsWith("bad:"));
  EXPECT_LT(config.status().message().size(), 5000u);  // ten problems
  return std::string(config.status().message());
}

constexpr size_t kMiB = size_t{1} << 20;

TEST(ConfigHostile, DeepNesting) {
  EXPECT_THAT(Refusal(Repeat("[", kMiB)), HasSubstr("nested more than 32 levels deep"));
  EXPECT_THAT(Refusal(Repeat("{", kMiB)), HasSubstr("nested more than 32 levels deep"));
  EXPECT_THAT(Refusal(Repeat("{a: ", kMiB)), HasSubstr("nested more than 32 levels deep"));
  EXPECT_THAT(Refusal(Repeat("- ", kMiB)), HasSubstr("nested more than 32 levels deep"));
  EXPECT_THAT(Refusal(Repeat("? ", kMiB)), HasSubstr("nested more than 32 levels deep"));
  std::string indented;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&indented, std::string(i, ' '), "a:\n");
  EXPECT_THAT(Refusal(indented), HasSubstr("nested more than 32 levels deep"));
}

TEST(ConfigHostile, ManyValues) {
  EXPECT_THAT(Refusal(absl::StrCat("[", Repeat("a,", kMiB - 2), "]")),
              HasSubstr("more than 65536 values"));
  EXPECT_THAT(Refusal(absl::StrCat("model: {hidden: [", Repeat("1,", kMiB - 100), "]}")),
              HasSubstr("more than 65536 values"));
  EXPECT_THAT(Refusal(Repeat("a: 1\n", kMiB)), HasSubstr("more than 65536 values"));
}

TEST(ConfigHostile, TooLarge) {
  EXPECT_EQ(Refusal(std::string(kMiB + 1, '#')),
            "bad:1:1: larger than 1048576 bytes; is this the right file?");
}

TEST(ConfigHostile, BillionLaughs) {
  std::string text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'z'; ++c) {
    const std::string alias = absl::StrCat("*", std::string(1, static_cast<char>(c - 1)), ", ");
    absl::StrAppend(&text, std::string(1, c), ": &", std::string(1, c), " [", Repeat(alias, 40),
                    "x]\n");
  }
  EXPECT_THAT(Refusal(text), HasSubstr("unknown key"));
}

TEST(ConfigHostile, AliasesThatMultiplyWithinTheSchema) {
  // Each rule has few values, but there are many aliases to it.
  const std::string text =
      "compression:\n  rules:\n  - &r {match: a, push: {topk: {density: 0.5}}}\n" +
      Repeat("  - *r\n", kMiB / 2);
  EXPECT_THAT(Refusal(text), HasSubstr("too many values through aliases"));
}

TEST(ConfigHostile, OddYaml) {
  for (const char* piece :
       {"&a ", "!",   "!!", "%YAML 1.2\n", "%TAG ! x\n", "---\n",    "...\n",        "\"\\", "'",
        "|\n", ">\n", ": ", ":\n",         "a: &a ",     "*a ",      "[[],",         "[a: ", "}",
        "]",   ",",   "@",  "`",           "\t",         "- - ? : ", "\xEF\xBB\xBF", "<<: "}) {
    for (const size_t bytes : {size_t{1}, size_t{64}, size_t{100000}}) {
      const std::string text = Repeat(piece, std::max(bytes, std::string(piece).size()));
      const absl::StatusOr<Config> config = ParseConfig(text, "bad");
      if (config.ok()) continue;
      EXPECT_THAT(std::string(config.status().message()), StartsWith("bad:"));
    }
  }
}

TEST(ConfigHostile, BinaryGarbage) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string text(random() % 4096, '\0');
    for (char& c : text) c = static_cast<char>(random());
    if (text.size() > 64) Refusal(text);
  }
  // The YAML library would take byte 4 for the end of the file.
  EXPECT_EQ(Refusal(std::string("seed: 1\n\x04seed: nonsense")),
            "bad:2:1: byte 0x04 does not belong in UTF-8 text; is this a YAML file?");
  EXPECT_THAT(Refusal(std::string("seed: 1\0", 8)), HasSubstr("byte 0x00"));
  EXPECT_THAT(Refusal("\xFF\xFEs\0e\0"), HasSubstr("byte 0xff"));
}

std::vector<std::string> ShippedConfigs() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/configs")) {
    if (entry.is_directory()) continue;  // sweeps: tests/unit/sweep
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

TEST(ConfigHostile, MutationsOfShippedConfigs) {
  const std::string pieces[] = {":",  "- ", "[",   "]", "{",    "}",   "\n", "  ",    "&a ",
                                "*a", "!",  "\"",  "'", "|\n",  "? ",  "#",  "---\n", "null",
                                "-1", "1e", "9e9", "~", "\xC3", "\\x", "%",  ", ",    "\t"};
  const std::vector<std::string> texts = ShippedConfigs();
  ASSERT_FALSE(texts.empty());
  std::mt19937_64 random(3);
  int accepted = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = texts[random() % texts.size()];
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      const size_t at = random() % (text.size() + 1);
      switch (random() % 4) {
        case 0:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        case 2:
          if (at < text.size()) text[at] = static_cast<char>(random() % 256);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 64));
      }
    }
    const absl::StatusOr<Config> config = ParseConfig(text, "bad");
    if (!config.ok()) {
      EXPECT_THAT(std::string(config.status().message()), StartsWith("bad:"));
      continue;
    }
    ++accepted;
    ValidateConfig(ResolveDefaults(*config)).IgnoreError();
    EXPECT_TRUE(ParseConfig(FormatConfig(*config), "again").ok()) << FormatConfig(*config);
  }
  EXPECT_GT(accepted, 100);  // otherwise the mutations are too coarse
}

TEST(ConfigHostile, SetOfAnyText) {
  std::mt19937_64 random(5);
  const std::string pieces[] = {"compression", "push",  "topk",   "density", ".",    "=",  "[",
                                "{",           "]",     "}",      ": ",      "0.5",  "\n", "&a ",
                                "*a",          "model", "hidden", "\xFF",    "\x04", "..", "rules"};
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (int k = static_cast<int>(random() % 10); k > 0; --k) {
      text += pieces[random() % std::size(pieces)];
    }
    Config config;
    const absl::Status status = ApplySet(text, &config);
    if (status.ok()) continue;
    EXPECT_THAT(std::string(status.message()), StartsWith("--set "));
  }
}

}  // namespace
}  // namespace psgd
