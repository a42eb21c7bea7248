#include "experiment/launch/resume_advice.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace psgd {
namespace {

using testing::HasSubstr;

TEST(ResumeAdvice, NamesTheJournalOfARunWithoutCheckpoints) {
  const std::string run = testing::TempDir() + "resume_advice_test";
  std::filesystem::remove_all(run);
  EXPECT_THAT(ResumeAdvice(run, {}), HasSubstr("start anew"));
  std::filesystem::create_directories(run + "/server/journal/coordinator");
  std::ofstream(run + "/server/journal/coordinator/CURRENT") << "MANIFEST-000001\n";
  EXPECT_THAT(ResumeAdvice(run, {}), HasSubstr("ps-server --recover " + run));
  EXPECT_THAT(ResumeAdvice(run, {false, {"python3", "train.py"}}),
              HasSubstr("PSGD_SERVER=HOST:PORT python3 train.py"));
  std::filesystem::remove_all(run);
}

TEST(ResumeCommand, SaysWhatPsRunMustBeToldAgain) {
  EXPECT_EQ(ResumeCommand("runs/a", {}), "ps-run --resume runs/a");
  EXPECT_EQ(ResumeCommand("runs/a", {true, {"python3", "train.py"}}),
            "ps-run --resume runs/a --servers-on-workers -- python3 train.py");
}

}  // namespace
}  // namespace psgd
