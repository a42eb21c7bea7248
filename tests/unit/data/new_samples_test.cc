#include "data/new_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/open_data.h"
#include "data/token_rows.h"
#include "tests/unit/data/npz_files.h"
#include "tests/unit/data/picture_files.h"
#include "tests/unit/data/scratch.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

class NewSamplesTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    WriteInFolder(folder_.File(name), text);
    return folder_.File(name);
  }
  // What a run on this data records.
  void Train(DataConfig::Format format, const std::string& path) {
    config_.set_format(format);
    config_.set_path(path);
    config_.set_batch(1);
    const auto sets = OpenData(config_, /*seed=*/1);
    ASSERT_TRUE(sets.ok()) << sets.status();
    preparation_ = sets->preparation;
    note_ = sets->note;
  }
  NewSamples Open(const std::string& path) {
    auto opened = OpenNewSamples(config_, preparation_, path);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : NewSamples();
  }
  std::string Error(const std::string& path) {
    const auto opened = OpenNewSamples(config_, preparation_, path);
    return opened.ok() ? "no error" : std::string(opened.status().message());
  }
  std::vector<float> ValuesOf(const NewSamples& opened, size_t index) {
    std::vector<float> values(opened.samples->shape().elements());
    std::vector<float> targets(static_cast<size_t>(opened.samples->shape().targets), -7);
    int32_t label = -7;
    EXPECT_TRUE(
        opened.samples
            ->Read({0, index}, {.values = values, .labels = {&label, 1}, .targets = targets})
            .ok());
    EXPECT_EQ(label, 0);
    EXPECT_THAT(targets, Each(0));
    return values;
  }
  std::vector<int32_t> TokensOf(const NewSamples& opened, size_t index) {
    std::vector<int32_t> tokens(opened.samples->shape().elements(), -7);
    int32_t label = -7;
    EXPECT_TRUE(opened.samples->Read({0, index}, {.tokens = tokens, .labels = {&label, 1}}).ok());
    return tokens;
  }

  ScratchFolder folder_;
  DataConfig config_;
  Preparation preparation_;
  std::string note_;
};

constexpr char kSoldHouses[] =
    "rooms,near,price\n"
    "2,sea,100\n"
    "6,hill,300\n"
    "4,,200\n"
    "4,sea,200\n";

TEST_F(NewSamplesTest, RowsAreCodedAsInTraining) {
  config_.add_target("price");
  config_.set_target_kind(DataConfig::NUMBER);
  config_.mutable_table()->set_test_fraction(0.25);
  Train(DataConfig::TABLE, Write("houses.csv", kSoldHouses));
  EXPECT_EQ(preparation_.targets(0).name(), "price");
  EXPECT_EQ(preparation_.targets(0).scale().mean(), 200);

  // In another order, with a column more. The rooms have mean 4, and a deviation of sqrt(8 / 3).
  const NewSamples opened =
      Open(Write("new.tsv", "id\tnear\trooms\n1\tsea\t4\n2\t\t\n3\tmoor\t4\n4\thill\tNULL\n"));
  ASSERT_EQ(opened.samples->size(), 4u);
  EXPECT_TRUE(opened.files.empty());
  EXPECT_THAT(opened.notes, ElementsAre("column \"near\": 1 of 4 fields have a value that no "
                                        "training row has, as \"moor\"; they count as missing"));
  EXPECT_THAT(ValuesOf(opened, 0), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(ValuesOf(opened, 1), ElementsAre(0, 0, 0, 1)) << "missing";
  EXPECT_THAT(ValuesOf(opened, 2), ElementsAre(0, 0, 0, 1)) << "unknown counts as missing";
  EXPECT_THAT(ValuesOf(opened, 3), ElementsAre(0, 1, 0, 0));

  EXPECT_THAT(
      Error(Write("bad.csv", "rooms,place\n1,sea\n")),
      HasSubstr("bad.csv:1: no column is named \"near\", as the run's training table says"));
  EXPECT_THAT(Error(Write("bad.csv", "rooms,near\n1,sea\nmany,sea\n")),
              AllOf(HasSubstr("bad.csv:3: column \"rooms\": \"many\" is no number"),
                    HasSubstr("the run trained on numbers here")));
  EXPECT_THAT(Error(folder_.File("none.csv")), HasSubstr("none.csv"));
  EXPECT_THAT(Error(Write("empty.csv", "rooms,near\n")), HasSubstr("has no row below"));
  const std::string packed = Gzip(kSoldHouses);
  const auto cut = OpenNewSamples(config_, preparation_,
                                  Write("cut.csv.gz", packed.substr(0, packed.size() - 9)));
  EXPECT_TRUE(absl::IsInvalidArgument(cut.status())) << cut.status();
  config_.set_standardize(false);
  EXPECT_THAT(Error(folder_.File("new.tsv")), HasSubstr("column \"rooms\": the number is missing"));
  // A damaged record, whose targets do not fit the outputs.
  preparation_.mutable_shape()->set_classes(2);
  EXPECT_THAT(Error(folder_.File("new.tsv")), HasSubstr("does not fit its network"));
}

TEST_F(NewSamplesTest, ARecordThatIsTooLargeIsNoted) {
  std::string table = "name,price\n";
  for (int i = 0; i < 600; ++i) {
    table += std::string(2000, 'a') + std::to_string(i % 590) + "," + std::to_string(i) + "\n";
  }
  config_.add_target("price");
  config_.set_target_kind(DataConfig::NUMBER);
  config_.mutable_table()->set_test_fraction(0.01);
  const std::string path = Write("names.csv", table);
  Train(DataConfig::TABLE, path);
  EXPECT_THAT(note_, HasSubstr("take more than 1 MiB"));
  EXPECT_TRUE(preparation_.too_large());
  EXPECT_EQ(preparation_.shape().width(), 590) << "an export needs it";
  EXPECT_EQ(preparation_.columns_size(), 0);
  EXPECT_THAT(Error(path), HasSubstr("take more than 1 MiB"));
}

TEST_F(NewSamplesTest, ClassesHaveNames) {
  config_.add_target("near");
  config_.mutable_table()->set_test_fraction(0.25);
  Train(DataConfig::TABLE, Write("a.csv", "x,near\n1,sea\n2,hill\n3,sea\n4,hill\n"));
  EXPECT_THAT(preparation_.classes(), ElementsAre("hill", "sea"));
  preparation_.Clear();
  EXPECT_THAT(Error(Write("new.csv", "x\n1\n")),
              AllOf(HasSubstr("keeps no record"), HasSubstr("ps-run --resume RUN_DIR")));
  config_.set_format(DataConfig::TEXT);
  EXPECT_THAT(Error("new.csv"), HasSubstr("this one trained on text"));
}

TEST_F(NewSamplesTest, ArraysNeedNoTargets) {
  const std::string x = NpyOf<float>("<f4", {4, 2}, {1, 5, 3, 5, 1, 5, 9, 6});
  const std::string y = NpyOf<double>("<f8", {4}, {10, 20, 10, 20});
  config_.mutable_table()->set_test_fraction(0.5);
  Train(DataConfig::ARRAYS, Write("a.npz", ZipOf({{"x.npy", x}, {"y.npy", y}})));
  EXPECT_THAT(preparation_.classes(), ElementsAre("10", "20"));
  for (const std::string& path :
       {Write("new.npy", x), Write("new.npz", ZipOf({{"x.npy", x}})), Write("f/x.npy", x)}) {
    const NewSamples opened = Open(path.ends_with("x.npy") ? folder_.File("f") : path);
    ASSERT_EQ(opened.samples->size(), 4u);
    EXPECT_THAT(ValuesOf(opened, 3), ElementsAre(7, 1));
  }
  EXPECT_THAT(Error(Write("wide.npy", NpyOf<float>("<f4", {1, 3}, {1, 2, 3}))),
              HasSubstr("x is (1, 3), but the run trained on samples of 2 values"));
  EXPECT_THAT(Error(Write("nan.npy", NpyOf<float>("<f4", {1, 2}, {1, NAN}))),
              HasSubstr("nan.npy: x[0]: nan is not finite"));
}

TEST_F(NewSamplesTest, TextsHaveTheTokensOfTheTraining) {
  config_.add_target("topic");
  config_.mutable_text()->set_length(4);
  config_.set_tokens(DataConfig::BPE);
  config_.set_vocabulary(261);  // ab, abab
  config_.mutable_table()->set_test_fraction(0.25);
  Train(DataConfig::TEXT_CLASSES,
        Write("a.csv", "topic,words\nsky,abababab\nsea,abababab\nsky,z\nsea,z\n"));
  EXPECT_EQ(preparation_.text_column(), "words");
  const NewSamples opened = Open(Write("new.csv", "words,id\nababz,1\na,2\n"));
  ASSERT_EQ(opened.samples->size(), 2u);
  EXPECT_THAT(TokensOf(opened, 0), ElementsAre(257 + kSpecialTokens, 'z' + kSpecialTokens, 0, 0));
  EXPECT_THAT(TokensOf(opened, 1), ElementsAre('a' + kSpecialTokens, 0, 0, 0));
  EXPECT_THAT(Error(Write("new.csv", "words,id\nababz,1\n\" \",2\n")),
              HasSubstr("new.csv:3: column \"words\": the field is empty; leave the row out"));
  EXPECT_THAT(Error(Write("new.csv", "text\na\n")), HasSubstr("no column is named \"words\""));
  preparation_.mutable_shape()->set_vocabulary(300);
  EXPECT_THAT(Error(Write("new.csv", "words\na\n")), HasSubstr("does not fit its network"));
  *preparation_.mutable_merges()->Mutable(0) = 0xffffffff;
  EXPECT_THAT(Error(Write("new.csv", "words\na\n")), HasSubstr("do not make one"));
}

TEST_F(NewSamplesTest, TextsMayBeFiles) {
  config_.mutable_text()->set_length(4);
  config_.mutable_table()->set_test_fraction(0.5);
  for (const char* name : {"sea/1", "sea/2", "sky/1", "sky/2"})
    Write(std::string("t/") + name, "a");
  Train(DataConfig::TEXT_CLASSES, folder_.File("t"));
  EXPECT_THAT(preparation_.classes(), ElementsAre("sea", "sky"));
  Write("new/b", "b");
  Write("new/deep/c", "c");
  Write("new/.hidden", "d");
  Write("new/.folder/e", "e");
  const NewSamples opened = Open(folder_.File("new"));
  EXPECT_THAT(opened.files, ElementsAre(folder_.File("new/b"), folder_.File("new/deep/c")));
  EXPECT_EQ(TokensOf(opened, 1)[0], 'c' + kSpecialTokens);
  EXPECT_THAT(Error(folder_.File("none")), HasSubstr("no such file or folder"));
  EXPECT_THAT(Error(Write("new.csv", "text\na\n")),
              HasSubstr("new.csv is a table, but the run trained on files"));
  EXPECT_THAT(Error(Write("blank", " \n")), HasSubstr("blank: the file has no text"));
}

}  // namespace
}  // namespace psgd
