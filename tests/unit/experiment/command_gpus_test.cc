// Which GPUs the programs of workers see.
#include "experiment/launch/command_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace psgd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommandGpus : public testing::Test {
 protected:
  CommandGpus() { unsetenv("CUDA_VISIBLE_DEVICES"); }
  ~CommandGpus() override { unsetenv("CUDA_VISIBLE_DEVICES"); }
};

TEST_F(CommandGpus, AreThoseOfTheList) {
  EXPECT_THAT(*GpusForCommands("0-2,5"), ElementsAre("0", "1", "2", "5"));
  EXPECT_THAT(GpusForCommands("all").status().message(), HasSubstr("not a list of devices"));
}

TEST_F(CommandGpus, CountAmongThoseThatThisProgramSees) {
  setenv("CUDA_VISIBLE_DEVICES", "4,GPU-8f2e", 1);
  EXPECT_THAT(*GpusForCommands("1,0"), ElementsAre("GPU-8f2e", "4"));
  EXPECT_THAT(GpusForCommands("0-2").status().message(),
              HasSubstr("asks for device 2, but CUDA_VISIBLE_DEVICES is 4,GPU-8f2e here"));
  setenv("CUDA_VISIBLE_DEVICES", "", 1);  // none
  EXPECT_THAT(GpusForCommands("0").status().message(), HasSubstr("asks for device 0"));
}

}  // namespace
}  // namespace psgd
