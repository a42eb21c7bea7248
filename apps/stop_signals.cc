#include "apps/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include <optional>

namespace psgd {

constexpr auto kOnce = std::chrono::milliseconds(200);

namespace {

// nohup and schedulers start programs that go on without their terminal.
bool IgnoresHangup() {
  struct sigaction now {};
  return sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (!IgnoresHangup()) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ,
         SIG_IGN);  // a file at its size limit (ulimit -f) then fails as on a full disk
  thread_ = std::thread([this, signals] {
    const timespec tick{0, 100'000'000};
    std::optional<Time> last;
    while (!ending_) {
      const int number = sigtimedwait(&signals, nullptr, &tick);
      if (number <= 0) continue;
      // A terminal that closes may signal again as its shell ends, and nobody asks for haste.
      if (number == SIGHUP && last) continue;
      // timeout(1) and similar programs signal the process and then its group. Both count as one.
      const Time now = SteadyNow();
      if (!last) first_ = now;
      if (!last || now - *last > kOnce) ++count_;
      last = now;
    }
  });
}

StopSignals::~StopSignals() {
  ending_ = true;
  thread_.join();
}

void DieWithParent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace psgd
