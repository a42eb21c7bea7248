#include "apps/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include <optional>

namespace psgd {

constexpr auto kOnce = std::chrono::milliseconds(200);

StopSignals::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ,
         SIG_IGN);  // a file at its size limit (ulimit -f) then fails as on a full disk
  thread_ = std::thread([this, signals] {
    const timespec tick{0, 100'000'000};
    std::optional<Time> last;
    while (!ending_) {
      if (sigtimedwait(&signals, nullptr, &tick) <= 0) continue;
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
