// The live table of a sweep, as a terminal gets it.
#include "experiment/sweep/sweep_display.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace psgd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kRecords[] =
    R"({"kind":"progress","seconds":42,"epoch":1.28,"loss":0.371,"samples_per_second":8130})"
    "\n"
    R"({"kind":"evaluation","seconds":42,"epoch":1,"accuracy":0.796,"loss":0.4})"
    "\n";

class SweepDisplayTest : public testing::Test {
 protected:
  SweepDisplayTest() : path_(testing::TempDir() + "/sweep-display-" + std::to_string(getpid())), metrics_(path_) {
    EXPECT_EQ(pipe2(pipe_, O_NONBLOCK | O_CLOEXEC), 0);
    std::ofstream(path_) << kRecords;
    metrics_.Look();
  }
  ~SweepDisplayTest() override {
    for (const int end : pipe_) close(end);
    std::filesystem::remove(path_);
  }
  SweepDisplay Display(bool interactive, bool quiet = false) const {
    return SweepDisplay({.fd = pipe_[1], .terminal = {.interactive = interactive}, .quiet = quiet, .name = "quick"});
  }
  ActiveRun Run(const std::string& label) const {
    return {.label = label, .seconds = 43, .epochs = 2, .metrics = &metrics_};
  }
  // What was written since the last look.
  std::string Seen() const {
    char text[8192];
    const ssize_t size = read(pipe_[0], text, sizeof text);
    return size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
  }

  const std::string path_;
  int pipe_[2] = {-1, -1};
  MetricsFollower metrics_;
  const SweepCounts counts_{.runs = 24, .finished = 3, .stopped = 0, .failed = 1, .waiting = 18};
};

TEST_F(SweepDisplayTest, ATableOfWhatGoesOnIsRedrawn) {
  SweepDisplay display = Display(/*interactive=*/true);
  display.Update(counts_, {Run("push fp16"), Run("push topk")}, 63);
  EXPECT_EQ(Seen(),
            "quick: 3 of 24 finished, 1 failed, 2 running, 18 waiting  ETA 1:03\n"
            "  push fp16  epoch 1.28/2  loss 0.371  test 79.6 %  8.13 k samples/s  43 s\n"
            "  push topk  epoch 1.28/2  loss 0.371  test 79.6 %  8.13 k samples/s  43 s\n");
  display.Update(counts_, {}, 62);
  EXPECT_EQ(Seen(), "") << "faster than anybody reads";
  display.Note("done: push fp16");
  EXPECT_EQ(Seen(), "\033[3F\033[Jdone: push fp16\n") << "in the place of the table";
  display.Update(counts_, {Run("push topk")}, -1);
  EXPECT_THAT(Seen(), AllOf(HasSubstr("1 running, 18 waiting\n"), Not(HasSubstr("ETA")), Not(HasSubstr("\033"))));
  display.Clear();
  EXPECT_EQ(Seen(), "\033[2F\033[J");
}

TEST_F(SweepDisplayTest, NoLineIsWiderThanTheTerminalAndNoTableEndless) {
  SweepDisplay display = Display(/*interactive=*/true);
  const std::string label(200, 'x');
  display.Update(counts_, std::vector<ActiveRun>(40, Run(label)), 63);
  const std::string table = Seen();
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 13);
  std::stringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 80u) << line;
  EXPECT_THAT(table, HasSubstr("xxx...  epoch 1.28/2"));
  // One that has just begun.
  MetricsFollower nothing(path_ + "-nowhere");
  EXPECT_EQ(ActiveLine({.label = "new", .seconds = 1, .epochs = 2, .metrics = &nothing}, 80), "  new  starting  1.0 s");
}

TEST_F(SweepDisplayTest, ElsewhereThereAreLinesThatStay) {
  SweepDisplay display = Display(/*interactive=*/false);
  display.Update(counts_, {Run("push fp16")}, 63);
  EXPECT_EQ(Seen(), "");
  display.Note("starts: push fp16");
  EXPECT_EQ(Seen(), "starts: push fp16\n");
  SweepDisplay quiet = Display(/*interactive=*/true, /*quiet=*/true);
  quiet.Update(counts_, {Run("push fp16")}, 63);
  quiet.Note("starts: push fp16");
  EXPECT_EQ(Seen(), "");
  quiet.Note("failed: push fp16", /*important=*/true);
  EXPECT_EQ(Seen(), "failed: push fp16\n");
}

}  // namespace
}  // namespace psgd
