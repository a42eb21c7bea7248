#include "server/change_log.h"

#include <bit>
#include <utility>

namespace psgd {

ChangeLog::ChangeLog(uint32_t elements, uint64_t version)
    : elements_(elements), known_from_(version), latest_(version) {}

void ChangeLog::Add(uint64_t version, std::vector<uint32_t> indices) {
  // More entries than this, with their indices, are no shorter than the whole slice.
  const size_t most = elements_ / 2;
  if (indices.size() > most) return AddAll(version);
  remembered_ += indices.size();
  changes_.push_back({version, std::move(indices)});
  latest_ = version;
  while (remembered_ > most) {
    remembered_ -= changes_.front().indices.size();
    known_from_ = changes_.front().version;
    changes_.pop_front();
  }
}

void ChangeLog::AddAll(uint64_t version) {
  changes_.clear();
  remembered_ = 0;
  known_from_ = latest_ = version;
}

std::optional<std::vector<uint32_t>> ChangeLog::Since(uint64_t version) const {
  if (version < known_from_ || version > latest_) return std::nullopt;
  auto first = changes_.begin();
  while (first != changes_.end() && first->version <= version) ++first;
  if (first == changes_.end()) return std::vector<uint32_t>();
  if (std::next(first) == changes_.end()) return first->indices;
  constexpr uint32_t kBits = 64;
  std::vector<uint64_t> changed((elements_ + kBits - 1) / kBits);
  for (; first != changes_.end(); ++first) {
    for (uint32_t index : first->indices) changed[index / kBits] |= uint64_t{1} << index % kBits;
  }
  std::vector<uint32_t> indices;
  for (size_t word = 0; word < changed.size(); ++word) {
    for (uint64_t bits = changed[word]; bits != 0; bits &= bits - 1) {
      indices.push_back(static_cast<uint32_t>(word * kBits) +
                        static_cast<uint32_t>(std::countr_zero(bits)));
    }
  }
  return indices;
}

}  // namespace psgd
