#include "train/network_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace psgd {
namespace {

using testing::HasSubstr;

Config ConfigOf(const std::string& zoo, DataConfig::Format format) {
  Config config;
  config.mutable_model()->set_zoo(zoo);
  config.mutable_data()->set_format(format);
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
