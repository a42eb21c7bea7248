#include "apps/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <initializer_list>
#include <thread>

namespace psgd {
namespace {

using std::chrono::milliseconds;

// The stops that a process counts which ignores SIGHUP at the start or does not, and gets these
// signals one after the other. In a process of its own, whose signals no test runner has changed.
int CountedOf(bool ignores, std::initializer_list<int> signals) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGHUP, ignores ? SIG_IGN : SIG_DFL);
    const StopSignals stops;
    for (const int number : signals) {
      kill(getpid(), number);
      std::this_thread::sleep_for(milliseconds(250));  // longer than what counts as one
    }
    _exit(stops.count());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StopSignalsTest, AClosedTerminalAsksOnceForAnOrderlyEnd) {
  EXPECT_EQ(CountedOf(false, {SIGHUP}), 1);
  EXPECT_EQ(CountedOf(false, {SIGHUP, SIGHUP}), 1) << "the shell and the kernel signal";
  EXPECT_EQ(CountedOf(false, {SIGTERM, SIGHUP}), 1);
  EXPECT_EQ(CountedOf(false, {SIGHUP, SIGTERM}), 2);
}

TEST(StopSignalsTest, WithNohupAClosedTerminalIsNothing) {
  EXPECT_EQ(CountedOf(true, {SIGHUP}), 0);
  EXPECT_EQ(CountedOf(true, {SIGHUP, SIGINT}), 1);
}

}  // namespace
}  // namespace psgd
