// The live table of a sweep, as written to a terminal.
#include "experiment/sweep/sweep_display.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/utf8.h"

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
  SweepDisplayTest()
      : path_(testing::TempDir() + "/sweep-display-" + std::to_string(getpid())), metrics_(path_) {
    EXPECT_EQ(pipe2(pipe_, O_NONBLOCK | O_CLOEXEC), 0);
    std::ofstream(path_) << kRecords;
    metrics_.Look();
  }
  ~SweepDisplayTest() override {
    for (const int end : pipe_) close(end);
    std::filesystem::remove(path_);
  }
  SweepDisplay Display(bool interactive, bool quiet = false) const {
    return SweepDisplay({.fd = pipe_[1],
                         .terminal = {.interactive = interactive},
                         .quiet = quiet,
                         .name = "quick"});
  }
  ActiveRun Run(const std::string& label) const {
    return {.label = label, .seconds = 43, .epochs = 2, .metrics = &metrics_};
  }
  SweepView View() const {
    return {.counts = counts_,
            .seconds_left = 63,
            .active = {Run("push fp16"),
                       {.label = "push topk", .seconds = 1, .epochs = 2, .metrics = &nothing_}},
            .ended = {{"finished", "push none", 21,
                       CurvePoint{.epoch = 2, .score = ScoreOf(0.801, {}), .loss = 0.35}},
                      {"stopped", "push sign", 11,
                       CurvePoint{.epoch = 1, .score = ScoreOf(0.3, {}), .loss = 0.9}}},
            .failed = {{"failed", "push onebit: the loss is not finite", 0, {}}},
            .next = {"push dgc", "push int8"}};
  }
  // The text written since the last call.
  std::string Seen() const {
    char text[8192];
    const ssize_t size = read(pipe_[0], text, sizeof text);
    return size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
  }

  const std::string path_;
  int pipe_[2] = {-1, -1};
  MetricsFollower metrics_;
  MetricsFollower nothing_{path_ + "-nowhere"};  // of a run that has just begun
  const SweepCounts counts_{.runs = 24, .finished = 3, .stopped = 0, .failed = 1, .waiting = 18};
};

TEST_F(SweepDisplayTest, ATableOfWhatGoesOnIsRedrawn) {
  SweepDisplay display = Display(/*interactive=*/true);
  SweepView view = View();
  display.Update(view);
  EXPECT_EQ(Seen(),
            "quick: 3 of 24 finished, 1 failed, 2 running, 18 waiting  ETA 1:03\n"
            "            run         epoch   loss    test  samples/s   time\n"
            "  finished  push none       2  0.350  80.1 %              21 s\n"
            "  stopped   push sign       1  0.900  30.0 %              11 s\n"
            "  failed    push onebit: the loss is not finite\n"
            "  running   push fp16  1.28/2  0.371  79.6 %     8.13 k   43 s\n"
            "  starting  push topk                                    1.0 s\n"
            "  next      push dgc\n"
            "  next      push int8\n");
  display.Update(view);
  EXPECT_EQ(Seen(), "") << "faster than anybody reads";
  display.Event("finished: push fp16");
  EXPECT_EQ(Seen(), "") << "the table has it";
  display.Note("failed: push fp16");
  EXPECT_EQ(Seen(), "\033[9F\033[Jfailed: push fp16\n") << "in the place of the table";
  view = {.counts = counts_, .active = {Run("push topk")}, .ended = {}, .failed = {}, .next = {}};
  display.Update(view);
  EXPECT_THAT(Seen(), AllOf(HasSubstr("1 running, 18 waiting\n"), Not(HasSubstr("ETA")),
                            Not(HasSubstr("\033"))));
  display.Clear();
  EXPECT_EQ(Seen(), "\033[3F\033[J");
}

// For any content and size: no line is too wide, lines are not too many, and no character is cut.
TEST_F(SweepDisplayTest, FitsIntoAnyTerminal) {
  SweepView view = View();
  view.active.assign(40, Run(std::string(100, 'x') + "\u00e9\u00e9\u00e9\u00e9"));
  view.ended.assign(5, view.ended.front());
  view.failed.assign(5, view.failed.front());
  view.next.assign(5, std::string(150, 'y'));
  for (int height = 1; height < 80; ++height) {
    for (const int width : {0, 1, 20, 40, 80, 119, 120, 121, 122, 400}) {
      const auto lines = SweepLines("quick", view, width, height);
      EXPECT_LE(lines.size(), static_cast<size_t>(height));
      for (const std::string& line : lines) {
        EXPECT_LE(line.size(), static_cast<size_t>(std::max(width - 1, 0))) << line;
        EXPECT_EQ(FindNonText(line), std::string::npos) << line;
      }
      if (height < 3 || width < 80) continue;
      EXPECT_THAT(lines.back(), testing::AnyOf(HasSubstr("next "), HasSubstr("more"))) << height;
    }
  }
  // If space is short, running runs come first.
  const auto few = SweepLines("quick", view, 80, 4);
  ASSERT_EQ(few.size(), 4u);
  EXPECT_THAT(few[1], AllOf(HasSubstr("  running  xxx"), HasSubstr("...  1.28/2  0.371")));
  EXPECT_THAT(few[3], HasSubstr("and 38 more"));
  const auto many = SweepLines("quick", view, 80, 60);
  EXPECT_EQ(std::count_if(many.begin(), many.end(),
                          [](const std::string& line) { return line.starts_with("  running"); }),
            40);
}

TEST_F(SweepDisplayTest, ElsewhereThereAreLinesThatStay) {
  SweepDisplay display = Display(/*interactive=*/false);
  display.Update(View());
  EXPECT_EQ(Seen(), "");
  display.Event("starts: push topk");
  EXPECT_EQ(Seen(), "starts: push topk\n");
  display.Note("starts: push fp16");
  EXPECT_EQ(Seen(), "starts: push fp16\n");
  SweepDisplay quiet = Display(/*interactive=*/true, /*quiet=*/true);
  quiet.Update(View());
  quiet.Event("starts: push fp16");
  quiet.Note("starts: push fp16");
  EXPECT_EQ(Seen(), "");
  quiet.Note("failed: push fp16", /*important=*/true);
  EXPECT_EQ(Seen(), "failed: push fp16\n");
}

}  // namespace
}  // namespace psgd
