#include "data/translation.h"
#include "data/token_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/batch.h"
#include "tests/unit/data/scratch.h"
#include "tests/unit/data/sequence_sets.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kA = 'a' + kSpecialTokens;

absl::StatusOr<DataSets> Open(const std::string& path, const std::string& more) {
  return OpenFormat("TRANSLATION", path, "batch: 1 " + more);
}

TEST(TranslationTest, TheDecoderSeesWhatComesBeforeEachLabel) {
  ScratchFolder folder;
  WriteFile(folder.File("pairs"), "ab\tcba\tignored\n\nabc\td\nabcde\tcbaabc\na\tb\n");
  DataConfig config;
  config.set_path(folder.File("pairs"));
  config.mutable_translation()->set_source_length(4);
  config.mutable_translation()->set_target_length(5);
  config.mutable_translation()->set_test_fraction(0.25);
  const auto sets = LoadTranslation(config, /*vocabulary=*/0);
  ASSERT_TRUE(sets.ok()) << sets.status();
  ASSERT_EQ(sets->train->size(), 3u);
  ASSERT_EQ(sets->test->size(), 1u);
  const SampleShape shape = sets->train->shape();
  EXPECT_EQ(shape.vocabulary, 259);
  EXPECT_EQ(shape.classes, 259);
  EXPECT_EQ(shape.source, 4);
  EXPECT_EQ(shape.ImageText(), "4 and 5 tokens");

  const Sequence first = ReadSequence(*sets->train, 0);
  EXPECT_THAT(first.tokens, ElementsAre(kA, kA + 1, 0, 0, kBeginToken, kA + 2, kA + 1, kA, 0));
  EXPECT_THAT(first.labels, ElementsAre(kA + 2, kA + 1, kA, kEndToken, -1));
  const Sequence cut = ReadSequence(*sets->train, 2);
  EXPECT_THAT(cut.tokens,
              ElementsAre(kA, kA + 1, kA + 2, kA + 3, kBeginToken, kA + 2, kA + 1, kA, kA));
  EXPECT_THAT(cut.labels, ElementsAre(kA + 2, kA + 1, kA, kA, kA + 1));
  EXPECT_THAT(ReadSequence(*sets->test, 0).labels, ElementsAre(kA + 1, kEndToken, -1, -1, -1));
}

TEST(TranslationTest, BytePairsAreLearnedFromBothSidesOfTheTrainingLines) {
  ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 9; ++i) text += "abab\tcc\n";
  WriteFile(folder.File("pairs"), text + "zzzz\tzzzzzz\n");
  const std::string keys = "tokens: BPE translation { source_length: 3 target_length: 3 } ";
  const auto sets = Open(folder.File("pairs"), keys + "vocabulary: 262");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.vocabulary, 262);
  std::vector<int32_t> tokens(6), labels(3);
  ASSERT_TRUE(sets->train->Read({0, 0}, {.tokens = tokens, .labels = labels}).ok());
  // First ab, then cc and abab, equally frequent; c is the smaller left token.
  EXPECT_THAT(tokens, ElementsAre(261, 0, 0, kBeginToken, 260, 0));
  EXPECT_THAT(labels, ElementsAre(260, kEndToken, -1));
  ASSERT_TRUE(sets->test->Read({0, 0}, {.tokens = tokens, .labels = labels}).ok());
  EXPECT_THAT(labels, Each('z' + kSpecialTokens));
  EXPECT_THAT(sets->note, AllOf(HasSubstr("1 of 10 texts (10 %) are longer than "
                                          "data.translation.source_length, 3 tokens"),
                                HasSubstr("data.translation.target_length")));
  const auto fewer = Open(folder.File("pairs"), keys + "vocabulary: 263");
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_EQ(fewer->shape.vocabulary, 262);
  EXPECT_THAT(fewer->note, HasSubstr("gives 262 tokens"));
}

TEST(TranslationTest, ABatchPadsWithEmptySourcesThatAreNotCounted) {
  ScratchFolder folder;
  WriteFile(folder.File("pairs"), "ab\tcd\nab\tcd\n");
  const auto sets = Open(folder.File("pairs"),
                         "translation { source_length: 2 target_length: 3 test_fraction: 0.5 }");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EvaluationBatches batches(sets->test, 2);
  const auto batch = batches.Read(0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(batch->tokens, ElementsAre(kA, kA + 1, 1, kA + 2, kA + 3, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch->labels, ElementsAre(kA + 2, kA + 3, kEndToken, -1, -1, -1));
}

TEST(TranslationTest, ErrorsSayWhatToDo) {
  ScratchFolder folder;
  const auto message = [&](const std::string& text, const std::string& more = "") {
    WriteFile(folder.File("pairs"), text);
    return std::string(Open(folder.File("pairs"), more).status().message());
  };
  EXPECT_THAT(message("a\tb\nalone\n"), AllOf(HasSubstr("pairs:2"), HasSubstr("a tab between")));
  EXPECT_THAT(message("\tb\n"), HasSubstr("pairs:1"));
  EXPECT_THAT(message("a\t\n"), HasSubstr("pairs:1"));
  EXPECT_THAT(message("a\t\tc\n"), HasSubstr("pairs:1"));
  EXPECT_THAT(message(""), AllOf(HasSubstr("0 pairs are too few"), HasSubstr("more lines")));
  EXPECT_THAT(message("a\tb\n"), HasSubstr("1 pairs are too few"));
  EXPECT_THAT(message("a\tb\na\tb\n", "translation { test_fraction: 1 }"),
              HasSubstr("must be between 0 and 1"));
  EXPECT_THAT(message("a\tb\na\tb\n", "translation { target_length: 0 }"),
              HasSubstr("data.translation.target_length is 0"));
  EXPECT_THAT(message("a\tb\na\tb\n", "tokens: BPE vocabulary: 70000"),
              HasSubstr("from 260 to 65536"));
  EXPECT_THAT(message("a\tb\na\tb\n", "augment { flip: true }"), HasSubstr("are for images"));
  EXPECT_THAT(Open("", "").status().message(), HasSubstr("data.path is not set"));
  EXPECT_THAT(Open("/nowhere", "").status().message(), HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace psgd
