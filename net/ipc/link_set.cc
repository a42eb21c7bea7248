#include "net/ipc/link_set.h"

#include <algorithm>
#include <bit>

namespace psgd {

void LinkSet::MakeRoom(size_t links) {
  words_.resize(std::max(words_.size(), (links + kWord - 1) / kWord));
}

void LinkSet::AddAll() { std::ranges::fill(words_, ~uint64_t{0}); }

bool LinkSet::Any() const {
  return std::ranges::any_of(words_, [](uint64_t word) { return word != 0; });
}

std::optional<size_t> LinkSet::NextFrom(size_t link) const {
  const size_t count = words_.size();
  size_t at = link / kWord;
  uint64_t from = ~uint64_t{0} << link % kWord;
  if (at >= count) {
    at = 0;
    from = ~uint64_t{0};
  }
  // The first word comes once more at the end, for the links before this one.
  for (size_t i = 0; i <= count && count > 0; ++i) {
    const uint64_t word = words_[at] & from;
    if (word != 0) return at * kWord + static_cast<size_t>(std::countr_zero(word));
    from = ~uint64_t{0};
    at = at + 1 == count ? 0 : at + 1;
  }
  return std::nullopt;
}

}  // namespace psgd
