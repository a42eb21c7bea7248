#include "worker/fragments.h"

#include <algorithm>
#include <numeric>

namespace psgd {

// The largest slices first, each to the fragment with the fewest elements so far: the fragments are
// of nearly equal size, and every one gets a slice if there are enough.
Fragments::Fragments(const Placement& placement, uint32_t count)
    : count_(count), of_(placement.slices_size()) {
  std::vector<int> order(of_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) {
    return placement.slices(a).count() > placement.slices(b).count();
  });
  std::vector<uint64_t> elements(count);
  for (const int slice : order) {
    const auto least = std::ranges::min_element(elements);
    *least += placement.slices(slice).count();
    of_[slice] = static_cast<uint32_t>(least - elements.begin());
  }
}

}  // namespace psgd
