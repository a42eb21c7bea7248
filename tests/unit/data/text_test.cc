#include "data/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "data/batch.h"
#include "data/loader.h"
#include "tests/unit/data/scratch.h"
#include "tests/unit/data/sequence_sets.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Byte i is i mod 256.
std::string Counting(size_t size) {
  std::string text(size, '\0');
  std::iota(text.begin(), text.end(), '\0');
  return text;
}

absl::StatusOr<DataSets> Open(const std::string& path, const std::string& more) {
  return OpenFormat("TEXT", path, more);
}

absl::StatusOr<TrainAndTest> Load(const std::string& path, int length, double test_fraction) {
  DataConfig config;
  config.set_path(path);
  config.mutable_text()->set_length(length);
  config.mutable_text()->set_test_fraction(test_fraction);
  return LoadText(config, /*vocabulary=*/0);
}

TEST(TextTest, CutsIntoSequencesAndPredictsTheNextByte) {
  ScratchFolder folder;
  WriteFile(folder.File("text"), Counting(300));
  const auto sets = Load(folder.File("text"), 7, 0.1);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->train->size(), 38u);  // (270 - 1) / 7: the last label is a byte, too
  EXPECT_EQ(sets->test->size(), 4u);    // (30 - 1) / 7
  EXPECT_EQ(sets->train->shape().ImageText(), "7 tokens");
  EXPECT_EQ(sets->train->shape().vocabulary, 256);
  EXPECT_EQ(sets->train->shape().classes, 256);
  const Sequence third = ReadSequence(*sets->train, 2);
  EXPECT_THAT(third.tokens, ElementsAre(14, 15, 16, 17, 18, 19, 20));
  EXPECT_THAT(third.labels, ElementsAre(15, 16, 17, 18, 19, 20, 21));
  EXPECT_EQ(ReadSequence(*sets->train, 37).labels.back(), (38 * 7) % 256);
  EXPECT_EQ(ReadSequence(*sets->test, 0).tokens.front(), 270 % 256);
  EXPECT_EQ(ReadSequence(*sets->test, 3).labels.back(), (270 + 28) % 256);
}

// A sample shows what its file holds when it is read, and no other byte matters.
TEST(TextTest, BytesAreReadWhenTheyAreAskedFor) {
  ScratchFolder folder;
  WriteFile(folder.File("a"), std::string(100, 'a'));
  WriteFile(folder.File("b"), std::string(100, 'b'));
  WriteFile(folder.File("c"), Gzip(std::string(100, 'c')));
  for (int i = 0; i < 2; ++i) {
    const auto sets = Open(folder.path(), "text { length: 29 test_fraction: 0.4 } batch: 1");
    ASSERT_TRUE(sets.ok()) << sets.status();
    std::ofstream(folder.File("a"), std::ios::in | std::ios::binary) << std::string(100, 'A');
    std::filesystem::resize_file(folder.File("b"), 60);
    std::ofstream(folder.File("c"), std::ios::binary) << "gone";
    std::vector<int32_t> tokens(29), labels(29);
    ASSERT_TRUE(sets->train->Read({0, 1}, {.tokens = tokens, .labels = labels}).ok());
    EXPECT_THAT(tokens, Each('A'));
    ASSERT_TRUE(sets->train->Read({0, 3}, {.tokens = tokens, .labels = labels}).ok());
    EXPECT_EQ(std::string(tokens.begin(), tokens.end()),
              std::string(13, 'A') + std::string(16, 'b'));
    BatchMaker maker(sets->train, 1, 1);
    const uint32_t beyond = 5;  // it ends at byte 174, which is byte 74 of b
    const auto batch = maker.Make(0, {&beyond, 1});
    EXPECT_TRUE(absl::IsDataLoss(batch.status())) << batch.status();
    EXPECT_THAT(std::string(batch.status().message()),
                AllOf(HasSubstr(folder.File("b")), HasSubstr("ends at byte 60")));
    ASSERT_TRUE(sets->test->Read({0, 1}, {.tokens = tokens, .labels = labels}).ok());
    EXPECT_THAT(tokens, Each('c'));
    // Again with so many files that no file stays open.
    for (int k = 0; k < 70; ++k) WriteFile(folder.File("empty-" + std::to_string(k)), "");
    WriteFile(folder.File("b"), std::string(100, 'b'));
    WriteFile(folder.File("c"), Gzip(std::string(100, 'c')));
  }
}

TEST(TextTest, BytesAboveAsciiAreTokensToo) {
  ScratchFolder folder;
  WriteFile(folder.File("text"), std::string(40, '\xFF'));
  const auto sets = Load(folder.File("text"), 4, 0.5);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_THAT(ReadSequence(*sets->train, 0).tokens, Each(255));
}

TEST(TextTest, AFolderIsItsFilesByTheirNames) {
  ScratchFolder folder;
  WriteFile(folder.File("b"), "world, ");
  WriteFile(folder.File("a"), "hello, ");
  WriteFile(folder.File("c"), "and so on");
  std::filesystem::create_directory(folder.File("0"));
  std::filesystem::create_symlink(folder.File("b"), folder.File("1"));
  const auto sets = Load(folder.path(), 11, 0.5);
  ASSERT_FALSE(sets.ok());
  EXPECT_THAT(sets.status().ToString(), HasSubstr("23 bytes are too few"));
  const auto shorter = Load(folder.path(), 5, 0.3);
  ASSERT_TRUE(shorter.ok()) << shorter.status();
  const Sequence second = ReadSequence(*shorter->train, 1);
  EXPECT_EQ(std::string(second.tokens.begin(), second.tokens.end()), ", wor");
}

TEST(TextTest, GzipIsUnpackedWhateverItsName) {
  ScratchFolder folder;
  const std::string text(3000000, 'x');  // several pieces
  WriteFile(folder.File("a"), "plain");
  WriteFile(folder.File("b"), Gzip("packed"));
  WriteFile(folder.File("c.gz"), Gzip(text));
  const auto sets = Load(folder.path(), 11, 0.5);
  ASSERT_TRUE(sets.ok()) << sets.status();
  const Sequence first = ReadSequence(*sets->train, 0), last = ReadSequence(*sets->test, 0);
  EXPECT_EQ(std::string(first.tokens.begin(), first.tokens.end()), "plainpacked");
  EXPECT_THAT(last.tokens, Each('x'));
  EXPECT_EQ(sets->train->size() + sets->test->size(), 2 * ((3000011 / 2 - 1) / 11));
}

TEST(TextTest, BytePairsAreLearnedFromTheTrainingPartAlone) {
  ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 90; ++i) text += " abcd";
  for (int i = 0; i < 10; ++i) text += " zzzz";
  WriteFile(folder.File("text"), text);
  const std::string keys = "tokens: BPE text { length: 5 } batch: 1 ";
  const auto sets = Open(folder.File("text"), keys + "vocabulary: 260");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.vocabulary, 260);
  EXPECT_EQ(sets->shape.classes, 260);
  EXPECT_EQ(sets->train->size(), 17u);  // (90 - 1) / 5 words
  std::vector<int32_t> tokens(5), labels(5);
  ASSERT_TRUE(sets->train->Read({0, 16}, {.tokens = tokens, .labels = labels}).ok());
  EXPECT_THAT(tokens, Each(259));
  ASSERT_TRUE(sets->test->Read({0, 0}, {.tokens = tokens, .labels = labels}).ok());
  EXPECT_THAT(tokens, ElementsAre(' ', 'z', 'z', 'z', 'z'));
  EXPECT_THAT(labels, ElementsAre('z', 'z', 'z', 'z', ' '));
  EXPECT_EQ(sets->note, "");
  const auto fewer = Open(folder.File("text"), keys + "vocabulary: 1024");
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_EQ(fewer->shape.vocabulary, 260);
  EXPECT_THAT(fewer->note, HasSubstr("gives 260 tokens"));
  EXPECT_THAT(Open(folder.File("text"), keys + "vocabulary: 3").status().message(),
              HasSubstr("data.vocabulary is 3"));
}

TEST(TextTest, ErrorsSayWhatToDo) {
  ScratchFolder folder;
  const auto message = [](const std::string& path, const std::string& more = "") {
    return std::string(Open(path, more).status().message());
  };
  EXPECT_THAT(message("/nowhere"), AllOf(HasSubstr("/nowhere"), HasSubstr("no such file")));
  EXPECT_THAT(message(folder.path()), HasSubstr("a folder without files"));
  EXPECT_THAT(message("/dev/zero"), HasSubstr("no such file or folder"));
  EXPECT_THAT(message(""), HasSubstr("data.path is not set"));
  WriteFile(folder.File("text"), Counting(1000));
  EXPECT_THAT(message(folder.File("text"), "text { length: 200 }"),
              AllOf(HasSubstr("1000 bytes are too few"), HasSubstr("data.text.length")));
  EXPECT_THAT(message(folder.File("text"), "text { length: 0 }"),
              HasSubstr("data.text.length is 0"));
  EXPECT_THAT(message(folder.File("text"), "text { length: 9 test_fraction: 1.5 }"),
              HasSubstr("must be between 0 and 1"));
  EXPECT_THAT(message(folder.File("text"), "text { length: 9 } augment { flip: true }"),
              HasSubstr("are for images"));
  EXPECT_THAT(message(folder.File("text"), "text { length: 9 } batch: 1000"),
              HasSubstr("the training set has only 99 samples"));
}

TEST(TextTest, ABatchHasTokensAndPadsWithLabelsThatDoNotCount) {
  ScratchFolder folder;
  WriteFile(folder.File("text"), Counting(1000));
  const auto sets = Open(folder.File("text"), "text { length: 3 } test_samples: 5 batch: 4");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EvaluationBatches batches(sets->test, 4);
  ASSERT_EQ(batches.size(), 2u);
  const auto last = batches.Read(1);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(last->pixels.empty());
  const int first = (900 + 12) % 256;
  EXPECT_THAT(last->tokens, ElementsAre(first, first + 1, first + 2, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(last->labels,
              ElementsAre(first + 1, first + 2, first + 3, -1, -1, -1, -1, -1, -1, -1, -1, -1));
}

TEST(TextTest, AnEpochHasEverySequenceOnceWhateverTheThreads) {
  ScratchFolder folder;
  WriteFile(folder.File("text"), Counting(2000));
  const auto sets =
      Open(folder.File("text"), "text { length: 1 test_fraction: 0.9 } train_samples: 192");
  ASSERT_TRUE(sets.ok()) << sets.status();
  std::vector<std::vector<int32_t>> runs;
  for (const int threads : {1, 3}) {
    BatchLoader loader(sets->train, {.batch = 8, .prefetch = 3, .threads = threads, .seed = 5});
    std::vector<int32_t>& seen = runs.emplace_back();
    for (uint32_t i = 0; i < loader.batches_per_epoch(); ++i) loader.Enqueue(2, i);
    for (uint32_t i = 0; i < loader.batches_per_epoch(); ++i) {
      const auto batch = loader.Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      for (size_t k = 0; k < 8; ++k) {
        EXPECT_EQ(batch->labels[k], batch->tokens[k] + 1);
        seen.push_back(batch->tokens[k]);
      }
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
  std::sort(runs[0].begin(), runs[0].end());
  std::vector<int32_t> all(192);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(runs[0], all);
}

}  // namespace
}  // namespace psgd
