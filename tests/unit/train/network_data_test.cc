#include "train/network_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/data/npz_files.h"

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Config ConfigOf(const std::string& zoo, DataConfig::Format format) {
  Config config;
  config.mutable_model()->set_zoo(zoo);
  config.mutable_data()->set_format(format);
  config.mutable_data()->set_batch(1);
  return config;
}

TEST(NetworkDataTest, TheNetworkChoosesWhatIsAuto) {
  EXPECT_EQ(DataOf(ConfigOf("gpt", DataConfig::ARRAYS))->input(), ArrayInput::TOKENS);
  EXPECT_EQ(DataOf(ConfigOf("mlp", DataConfig::ARRAYS))->input(), ArrayInput::NUMBERS);
  EXPECT_EQ(DataOf(ConfigOf("lenet5", DataConfig::IMAGES))->images().channels(), 3);
  EXPECT_FALSE(DataOf(ConfigOf("gpt", DataConfig::TEXT))->has_input());

  Config config = ConfigOf("gpt", DataConfig::ARRAYS);
  config.mutable_data()->set_input(ArrayInput::NUMBERS);
  EXPECT_EQ(DataOf(config)->input(), ArrayInput::NUMBERS);
}

// Checks the padding of rows of tokens. Each row has a class.
class PaddingTest : public testing::Test {
 protected:
  absl::StatusOr<PaddingNote> Check(const std::string& zoo, const std::vector<int32_t>& tokens,
                                    size_t rows = 4) {
    WriteFile(folder_.File("x.npy"), NpyOf("<i4", {rows, tokens.size() / rows}, tokens));
    std::vector<int32_t> classes;
    for (size_t i = 0; i < rows; ++i) classes.push_back(static_cast<int32_t>(i % 2));
    WriteFile(folder_.File("y.npy"), NpyOf("<i4", {rows}, classes));
    Config config = ConfigOf(zoo, DataConfig::ARRAYS);
    config.mutable_data()->set_path(folder_.path());
    config.mutable_data()->mutable_table()->set_test_fraction(0.25);
    PSGD_ASSIGN_OR_RETURN(const DataSets sets, OpenDataOf(config));
    return CheckPadding(config, sets);
  }

  ScratchFolder folder_;
};

TEST_F(PaddingTest, ComesLastWhereItEndsASequence) {
  for (const char* zoo : {"bag_of_tokens", "transformer_encoder"}) {
    EXPECT_EQ(Check(zoo, {1, 2, 3, 4, 0, 0, 0, 0, 0, 5, 6, 0})->text, "") << "a row may be empty";
    const auto train = Check(zoo, {1, 2, 3, 0, 4, 5, 1, 1, 1, 5, 6, 0});
    ASSERT_TRUE(train.ok()) << train.status();
    EXPECT_TRUE(train->of_many);
    EXPECT_THAT(
        train->text,
        AllOf(HasSubstr(folder_.path() +
                        ": the training sample 1 has token 4 behind a 0, as 1 of 3 has, and"),
              HasSubstr("padding='post'"), HasSubstr("add 1 to all tokens")));
    const auto test = Check(zoo, {1, 2, 3, 4, 5, 1, 1, 1, 1, 6, 0, 5});
    EXPECT_TRUE(test->of_many);
    EXPECT_THAT(test->text, HasSubstr("the test sample 0 has token 5 behind a 0"));
  }
  for (const char* zoo : {"gpt", "lstm_lm", "mlp"}) {
    EXPECT_EQ(Check(zoo, {0, 2, 3, 0, 4, 5, 1, 1, 1, 5, 0, 6})->text, "") << "0 is as other tokens";
  }
}

TEST_F(PaddingTest, OfFewRowsIsARareToken) {
  std::vector<int32_t> tokens(size_t{80} * 3, 1);
  const auto cut = [&](size_t row) { tokens[row * 3 + 1] = 0; };
  for (const size_t row : {7, 8, 9}) cut(row);
  EXPECT_FALSE(Check("bag_of_tokens", tokens, 80)->of_many);
  EXPECT_THAT(Check("bag_of_tokens", tokens, 80)->text,
              HasSubstr("sample 7 has token 1 behind a 0, as 3 of 60 have"));
  cut(10);
  EXPECT_TRUE(Check("bag_of_tokens", tokens, 80)->of_many);
}

TEST_F(PaddingTest, OfTextsIsPsgdsOwn) {
  WriteFile(folder_.File("texts.csv"), "text,y\nab,1\nb,0\nabcdef,1\na b,0\n");
  Config config = ConfigOf("bag_of_tokens", DataConfig::TEXT_CLASSES);
  config.mutable_data()->set_path(folder_.File("texts.csv"));
  config.mutable_data()->add_target("y");
  config.mutable_data()->mutable_table()->set_test_fraction(0.5);
  config.mutable_data()->mutable_text()->set_length(4);
  const auto sets = OpenDataOf(config);
  ASSERT_TRUE(sets.ok()) << sets.status();
  // Their tokens pass as those of arrays would.
  config.mutable_data()->set_format(DataConfig::ARRAYS);
  const auto passed = CheckPadding(config, *sets);
  ASSERT_TRUE(passed.ok()) << passed.status();
  EXPECT_EQ(passed->text, "");
}

TEST(NetworkDataTest, AnUnreadableFileIsAnError) {
  Config config = ConfigOf("", DataConfig::ARRAYS);
  config.mutable_model()->set_onnx("/nowhere/tokens.onnx");
  EXPECT_THAT(std::string(DataOf(config).status().message()),
              HasSubstr("cannot read the model /nowhere/tokens.onnx"));
  config.mutable_data()->set_input(ArrayInput::TOKENS);
  EXPECT_TRUE(DataOf(config).ok()) << "nothing needs the file";
}

}  // namespace
}  // namespace psgd
