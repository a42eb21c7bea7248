#include "data/text_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/batch.h"
#include "data/token_rows.h"
#include "tests/unit/data/picture_files.h"
#include "tests/unit/data/sequence_sets.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int kA = 'a' + kSpecialTokens;
constexpr char kTable[] = "topic,words\nsky,ab\nsea,\"b,a\"\nsky,c\nsea,a\nsky,abcde\n";

class TextClassesTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    WriteInFolder(folder_.File(name), text);
    return folder_.File(name);
  }
  absl::StatusOr<DataSets> Open(const std::string& path, const std::string& more) {
    return OpenFormat("TEXT_CLASSES", path, "batch: 1 text { length: 3 } " + more);
  }
  std::string Error(const std::string& path, const std::string& more = "target: \"topic\"") {
    const auto sets = Open(path, more);
    return sets.ok() ? "no error" : std::string(sets.status().message());
  }
  Sequence At(const SampleSource& source, size_t index) {
    Sequence read = {std::vector<int32_t>(source.shape().elements(), -5),
                     std::vector<int32_t>(source.shape().labels(), -5)};
    targets_.assign(static_cast<size_t>(source.shape().targets), -5);
    EXPECT_TRUE(
        source.Read({0, index}, {.tokens = read.tokens, .labels = read.labels, .targets = targets_})
            .ok());
    return read;
  }

  ScratchFolder folder_;
  std::vector<float> targets_;  // of the last sample read
};

TEST_F(TextClassesTest, ATextIsCutOrPaddedAndHasOneLabel) {
  const auto sets = Open(Write("a.csv", kTable), "target: \"topic\" table { test_fraction: 0.4 }");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.classes, 2);
  EXPECT_EQ(sets->shape.length, 3);
  EXPECT_EQ(sets->shape.labels(), 1u);
  EXPECT_EQ(sets->shape.vocabulary, 259);
  EXPECT_EQ(sets->shape.ImageText(), "3 tokens");
  ASSERT_EQ(sets->train->size(), 3u);
  ASSERT_EQ(sets->test->size(), 2u);
  EXPECT_THAT(At(*sets->train, 0).tokens, ElementsAre(kA, kA + 1, kPaddingToken));
  EXPECT_THAT(At(*sets->train, 0).labels, ElementsAre(1));  // sea, sky
  EXPECT_THAT(At(*sets->train, 1).tokens, ElementsAre(kA + 1, ',' + kSpecialTokens, kA));
  EXPECT_THAT(At(*sets->test, 0).labels, ElementsAre(0));
  EXPECT_THAT(At(*sets->test, 1).tokens, ElementsAre(kA, kA + 1, kA + 2));
}

TEST_F(TextClassesTest, BatchesPadTheLastTexts) {
  const auto sets = Open(Write("a.csv", kTable), "target: \"topic\" table { test_fraction: 0.2 }");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EvaluationBatches batches(sets->test, 2);
  const auto batch = batches.Read(0);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(batch->tokens, ElementsAre(kA, kA + 1, kA + 2, 0, 0, 0));
  EXPECT_THAT(batch->labels, ElementsAre(1, -1));
}

TEST_F(TextClassesTest, TheColumnOfTextIsNamedWhereThereAreMore) {
  const std::string path =
      Write("a.tsv", "id\ttopic\ttitle\n1\tsky\tab\n2\tsea\tc\n3\tsea\td\n4\tsky\te\n");
  EXPECT_THAT(Error(path), AllOf(HasSubstr("a.tsv:1: besides data.target there are 2 columns: id, "
                                           "title"),
                                 HasSubstr("as data.columns: [NAME]")));
  const auto sets = Open(path, "target: \"topic\" columns: \"title\" table { test_fraction: 0.5 }");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_THAT(At(*sets->train, 1).tokens, ElementsAre(kA + 2, 0, 0));
  EXPECT_THAT(Error(path, "target: \"topic\" columns: \"titel\""),
              HasSubstr("did you mean \"title\""));
  EXPECT_THAT(Error(path, "target: \"topic\" columns: [\"id\", \"title\"]"),
              HasSubstr("a sample has one text"));
  EXPECT_THAT(Error(path, "target: \"topic\" columns: \"topic\""),
              HasSubstr("is in data.columns and in data.target"));
}

TEST_F(TextClassesTest, LabelsAndNumbersOfTexts) {
  const std::string path = Write("a.csv", "text,warm,old\nab,1,0\nb,0,0\nc,1,1\n");
  const auto labels = Open(path, "target: [\"warm\", \"old\"] target_kind: LABELS");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(labels->shape.targets, 2);
  EXPECT_THAT(At(*labels->train, 0).labels, ElementsAre(0));
  EXPECT_THAT(targets_, ElementsAre(1, 0));
  const auto numbers =
      Open(Write("b.csv", "text,stars\nab,1\nb,5\nc,3\n"), "target: \"stars\" target_kind: NUMBER");
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  At(*numbers->test, 0);
  EXPECT_THAT(targets_, ElementsAre(0));
}

TEST_F(TextClassesTest, FoldersAreClassesAndTheTestHasTheLastOfEach) {
  for (int i = 0; i < 4; ++i) Write("texts/b/" + std::to_string(i), std::string(1, char('a' + i)));
  Write("texts/a/only.txt", "x");
  Write("texts/a/packed.gz", Gzip("yz"));
  Write("texts/readme", "no class");
  Write("texts/a/.hidden", "");
  const std::string path = folder_.File("texts");
  const auto sets = Open(path, "table { test_fraction: 0.5 }");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.classes, 2);
  ASSERT_EQ(sets->train->size(), 3u);
  ASSERT_EQ(sets->test->size(), 3u);
  EXPECT_THAT(At(*sets->train, 0).tokens, ElementsAre(kA + 23, 0, 0));
  EXPECT_THAT(At(*sets->train, 0).labels, ElementsAre(0));
  EXPECT_THAT(At(*sets->train, 1).labels, ElementsAre(1));
  EXPECT_THAT(At(*sets->train, 2).tokens, ElementsAre(kA + 1, 0, 0));
  EXPECT_THAT(At(*sets->test, 0).tokens, ElementsAre(kA + 24, kA + 25, 0));
  EXPECT_THAT(At(*sets->test, 2).tokens, ElementsAre(kA + 3, 0, 0));

  Write("more/b/0", "b");
  const auto own = Open(path, "table { test: \"" + folder_.File("more") + "\" }");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->train->size(), 6u);
  EXPECT_THAT(At(*own->test, 0).labels, ElementsAre(1));
}

TEST_F(TextClassesTest, WrongFoldersNameTheirPart) {
  Write("texts/a/0", "x");
  const std::string path = folder_.File("texts");
  EXPECT_THAT(Error(path, ""), HasSubstr("texts has one folder; classes are at least 2"));
  Write("texts/b/0", "y");
  EXPECT_THAT(Error(path, ""), AllOf(HasSubstr("texts: 2 texts are too few to keep 0.1 of each"),
                                     HasSubstr("data.table.test")));
  EXPECT_THAT(Error(path), HasSubstr("leave data.target and data.columns out"));
  EXPECT_THAT(Error(path, "target_kind: LABELS"), HasSubstr("set model.loss to cross_entropy"));
  std::filesystem::create_directory(folder_.File("texts/c"));
  EXPECT_THAT(Error(path, ""), HasSubstr("texts/c: holds no file; add some, or remove the folder"));
  Write("texts/c/0", " \n");
  EXPECT_THAT(Error(path, ""), HasSubstr("texts/c/0: the file has no text; remove it"));
  std::filesystem::remove_all(folder_.File("texts/c"));
  Write("more/d/0", "b");
  EXPECT_THAT(Error(path, "table { test: \"" + folder_.File("more") + "\" }"),
              HasSubstr("more/d/0: no training row has this class"));
  EXPECT_THAT(Error(folder_.File("none"), "target: \"topic\""),
              AllOf(HasSubstr("cannot open "), HasSubstr("/none")));
}

TEST_F(TextClassesTest, WrongTablesNameTheLine) {
  EXPECT_THAT(Error(Write("a.csv", "topic,text\nsky,a\nsea\n")), HasSubstr("a.csv:3: 1 fields"));
  EXPECT_THAT(Error(Write("a.csv", "topic,text\nsky,a\nsea,  \n")),
              HasSubstr("a.csv:3: column \"text\": the field is empty; leave the row out"));
  EXPECT_THAT(Error(Write("a.csv", "topic,text\nsky,a\n,b\n")),
              HasSubstr("a.csv:3: column \"topic\": the target is missing"));
  EXPECT_THAT(Error(Write("a.csv", "topic\nsky\n")),
              HasSubstr("besides data.target there are 0 columns; one must have the text"));
  EXPECT_THAT(Error(Write("a.csv", kTable), ""), HasSubstr("data.target is missing"));
  EXPECT_THAT(Error(Write("a.csv", "topic,text\nx,a\ny,b\ny,c\nz,d\n"),
                    "target: \"topic\" table { test_fraction: 0.25 }"),
              HasSubstr("line 5: no training row has this class"));
}

TEST_F(TextClassesTest, AQuotedTextMayHaveSeveralLines) {
  const std::string path =
      Write("a.csv", "topic,text\nsky,\"a\nb\"\nsea,\"\n\nc\"\"\r\n\"\nsky,d\n");
  const auto sets = Open(path, "target: \"topic\" table { test_fraction: 0.3 }");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_THAT(At(*sets->train, 0).tokens, ElementsAre(kA, '\n' + kSpecialTokens, kA + 1));
  EXPECT_THAT(At(*sets->train, 1).tokens,
              ElementsAre('\n' + kSpecialTokens, kA + 2, '"' + kSpecialTokens));
  EXPECT_THAT(Error(Write("a.csv", "topic,text\nsky,a\nsea,\"b\nsky,c\n")),
              HasSubstr("a.csv:3: the quote before \"b does not end; write a quote"));
  EXPECT_THAT(
      Error(Write("a.csv", "topic,text\nsky,a\nsea,\"b\n" + std::string(70000, 'x') + "\nsky,c\n")),
      AllOf(HasSubstr("a.csv:4: the row from line 3 on: the quote before"),
            HasSubstr("does not end")));
}

TEST_F(TextClassesTest, BytePairsAreLearnedFromTheTrainingTexts) {
  const std::string path =
      Write("a.csv", "topic,text\nsky,abababab\nsea,abab ab\nsky,zzzzzzzzzz\n");
  const auto sets = Open(path,
                         "target: \"topic\" tokens: BPE vocabulary: 261 table { test_fraction: "
                         "0.3 }");
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ(sets->shape.vocabulary, 261);
  // ab is token 256, abab 257.
  EXPECT_THAT(At(*sets->train, 0).tokens,
              ElementsAre(257 + kSpecialTokens, 257 + kSpecialTokens, 0));
  EXPECT_THAT(At(*sets->test, 0).tokens, ElementsAre('z' + 3, 'z' + 3, 'z' + 3));
  EXPECT_THAT(sets->note,
              AllOf(HasSubstr("2 classes: sea, sky; no test sample has sea"),
                    HasSubstr("1 of 3 texts (33 %) are longer than data.text.length, 3 tokens"),
                    Not(HasSubstr("vocabulary"))));
  const auto fewer = Open(path,
                          "target: \"topic\" tokens: BPE vocabulary: 2000 table { test_fraction: "
                          "0.3 }");
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_EQ(fewer->shape.vocabulary, kSpecialTokens + 256 + fewer->preparation.merges_size());
  EXPECT_THAT(fewer->note, HasSubstr("data.vocabulary is 2000, and the training text gives 261"));
}

}  // namespace
}  // namespace psgd
