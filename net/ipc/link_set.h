// Links of an endpoint, by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace psgd {

class LinkSet {
 public:
  static constexpr size_t kWord = 64;  // links of a word

  // From now on the set has room for the links below this number. Add and Remove need it.
  void MakeRoom(size_t links);
  void Add(size_t link) { words_[link / kWord] |= uint64_t{1} << link % kWord; }
  void Remove(size_t link) { words_[link / kWord] &= ~(uint64_t{1} << link % kWord); }
  // All for which there is room, and maybe a few numbers above them.
  void AddAll();
  bool Any() const;
  // The first from this number on, and after the last again from 0; nullopt: the set is empty.
  std::optional<size_t> NextFrom(size_t link) const;

  // Each has a bit for each of its links, the lowest first.
  std::vector<uint64_t>& words() { return words_; }
  const std::vector<uint64_t>& words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace psgd
