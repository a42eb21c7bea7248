// ps-doctor reports a machine's equipment, also without a GPU.
#include "tests/system/run_test.h"

namespace psgd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(DoctorTest, NamesTheHostAndTheEngines) {
  const Ended ended = RunProgram({"ps-doctor", "--quick"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("processor"));
  EXPECT_THAT(ended.out, HasSubstr("GiB available"));
  EXPECT_THAT(ended.out, HasSubstr("onednn: "));
  EXPECT_THAT(ended.out, HasSubstr("cudnn: "));
  EXPECT_THAT(ended.out, HasSubstr("network      not measured, as that takes two machines"));
}

TEST(DoctorTest, SaysWhatTheLackOfAGpuMeans) {
  const Ended ended = RunProgram({"ps-doctor"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  if (ended.out.find("compute capability") != std::string::npos) GTEST_SKIP() << "there is one";
  EXPECT_THAT(ended.out, HasSubstr("no CUDA device"));
  EXPECT_THAT(ended.out, HasSubstr("ps-worker --cpu"));
}

TEST(DoctorTest, HelpStartsWithExamples) {
  const Ended ended = RunProgram({"ps-doctor", "--help"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, StartsWith("Examples:\n  ps-doctor"));
  EXPECT_THAT(ended.out, HasSubstr("--quick"));
}

TEST(DoctorTest, RefusesWhatItDoesNotKnow) {
  const Ended ended = RunProgram({"ps-doctor", "--slow"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("--slow"));
}

}  // namespace
}  // namespace psgd
