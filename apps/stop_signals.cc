#include "apps/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

namespace psgd {

StopSignals::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this, signals] {
    const timespec tick{0, 100'000'000};
    while (!ending_) {
      if (sigtimedwait(&signals, nullptr, &tick) > 0) ++count_;
    }
  });
}

StopSignals::~StopSignals() {
  ending_ = true;
  thread_.join();
}

void DieWithParent() { prctl(PR_SET_PDEATHSIG, SIGTERM); }

}  // namespace psgd
