#include "bench/pinned_threads.h"

#include <algorithm>
#include <barrier>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/cores.h"

namespace psgd {

double OnPinnedThreads(int threads, absl::FunctionRef<void(int)> work) {
  const auto count = static_cast<size_t>(threads);
  const std::vector<int> cores = UsableCores().order;
  std::vector<Time> starts(count), ends(count);
  std::barrier all(threads);
  {
    std::vector<std::jthread> running;
    for (size_t i = 0; i < count; ++i) {
      running.emplace_back([&, i] {
        StayOnCore(cores[i]);
        all.arrive_and_wait();
        starts[i] = SteadyNow();
        work(static_cast<int>(i));
        ends[i] = SteadyNow();
      });
    }
  }
  return Seconds(*std::ranges::max_element(ends) - *std::ranges::min_element(starts));
}

}  // namespace psgd
