// cmake --install, and a run with the installed programs.
#include <filesystem>

#include "tests/folders.h"
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using InstallTest = RunTest;

TEST_F(InstallTest, TheInstalledProgramsTrain) {
  const Ended installed =
      RunProgram({PSGD_CMAKE, "--install", BuildDir(), "--prefix", Path("prefix")});
  ASSERT_EQ(installed.code, 0) << installed.err;
  const Ended run =
      RunProgram({Path("prefix/bin/ps-run"), Path("prefix/share/psgd/configs/mlp_synthetic.yaml"),
                  "--run-dir", Path("run"), "--quiet"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(Summary("run")["status"], "finished");
}

}  // namespace
}  // namespace psgd
