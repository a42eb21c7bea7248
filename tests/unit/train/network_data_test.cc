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

// Of tokens, with a class each.
class PaddingTest : public testing::Test {
 protected:
  absl::Status Open(const std::string& zoo, const std::vector<int32_t>& tokens, size_t rows = 4) {
    WriteFile(folder_.File("x.npy"), NpyOf("<i4", {rows, tokens.size() / rows}, tokens));
    std::vector<int32_t> classes;
    for (size_t i = 0; i < rows; ++i) classes.push_back(static_cast<int32_t>(i % 2));
    WriteFile(folder_.File("y.npy"), NpyOf("<i4", {rows}, classes));
    Config config = ConfigOf(zoo, DataConfig::ARRAYS);
    config.mutable_data()->set_path(folder_.path());
    config.mutable_data()->mutable_table()->set_test_fraction(0.25);
    return OpenDataOf(config).status();
  }

  ScratchFolder folder_;
};

TEST_F(PaddingTest, ComesLastWhereItEndsASequence) {
  for (const char* zoo : {"bag_of_tokens", "transformer_encoder"}) {
    EXPECT_TRUE(Open(zoo, {1, 2, 3, 4, 0, 0, 0, 0, 0, 5, 6, 0}).ok()) << "a row may be empty";
    EXPECT_THAT(std::string(Open(zoo, {1, 2, 3, 0, 4, 5, 1, 1, 1, 5, 6, 0}).message()),
                AllOf(HasSubstr(folder_.path() + ": the training sample 1 has token 4 behind a 0"),
                      HasSubstr("padding='post'"), HasSubstr("add 1 to all tokens")));
    EXPECT_THAT(std::string(Open(zoo, {1, 2, 3, 4, 5, 1, 1, 1, 1, 6, 0, 5}).message()),
                HasSubstr("the test sample 0 has token 5 behind a 0"));
  }
  for (const char* zoo : {"gpt", "lstm_lm", "mlp"}) {
    EXPECT_TRUE(Open(zoo, {0, 2, 3, 0, 4, 5, 1, 1, 1, 5, 0, 6}).ok()) << "0 is as other tokens";
  }
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
  const absl::Status passed = CheckPadding(config, *sets);
  EXPECT_TRUE(passed.ok()) << passed;
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
