// Selects the largest of many numbers, mostly in one pass: a sample guesses a magnitude that about
// the wanted number reach, and only those are examined again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/kernels.h"
#include "compression/sparse/select.h"

namespace psgd {

// Numbers that are made block by block, to select the largest of.
class SelectSource {
 public:
  virtual ~SelectSource() = default;
  virtual size_t size() const = 0;
  // Writes kSampleRun numbers from `begin` on, with the values that Make gives them.
  virtual void Sample(size_t begin, float* run) const = 0;
  // Makes `count` numbers from `begin` on.
  virtual void Make(size_t begin, size_t count) = 0;
  // Does the same, and appends index and value of numbers whose magnitude bits are at least
  // `least`. Returns how many. REQUIRES: room for count + kGatherSlack.
  virtual size_t Gather(size_t begin, size_t count, uint32_t least, uint32_t* indices,
                        float* values) = 0;
  // All numbers. REQUIRES: all are made.
  virtual std::span<const float> Made() const = 0;
};

enum class Selection {
  kExact,    // the `keep` largest, the lower index first among equals
  kSampled,  // numbers that reach the sample's guess; the `keep` largest of them if they are many
             // more (Lin et al.'s hierarchical selection), or of all numbers if they are few
};

// Selects from one source after another. Keeps buffers to spare allocations. Not thread-safe.
class LargestSelector {
 public:
  explicit LargestSelector(const CodecKernels& kernels) : kernels_(kernels) {}

  // Makes all numbers of the source and picks about `keep`; exactly `keep` for kExact. Picks fewer
  // if fewer are not zero: zeros are picked only if all numbers are.
  // REQUIRES: keep <= source->size().
  void Select(SelectSource* source, size_t keep, Selection selection);
  // Makes all numbers of the source and picks exactly the `keep` largest, the lower index first
  // among equals; fewer if fewer are not zero: zeros are never picked. `guess` is the bits of a
  // magnitude, not zero. The call is fast if a little more than `keep` of the numbers reach it.
  // REQUIRES: 0 < keep <= source->size().
  void SelectNear(SelectSource* source, size_t keep, uint32_t guess);
  // Makes all numbers of the source and picks those that reach `least`.
  void SelectReaching(SelectSource* source, uint32_t least);

  // The picked numbers, by index.
  std::span<const uint32_t> indices() const { return std::span(indices_).first(count_); }
  std::span<float> values() { return std::span(values_).first(count_); }

 private:
  // Returns false if too few or too many numbers reach the guess. Then all numbers are made.
  bool SelectFromGuess(SelectSource* source, size_t keep, Selection selection, uint32_t least);
  // `zeros`: whether zeros may be picked.
  void SelectFromMade(std::span<const float> made, size_t keep, bool zeros);
  void MakeRoom(size_t more);
  // Drops the entries from `begin` on that the cut does not keep; counts its ties down.
  void Apply(size_t begin, Cut* cut);

  const CodecKernels& kernels_;
  size_t count_ = 0;  // entries in use
  std::vector<uint32_t> indices_;
  std::vector<float> values_;
  std::vector<uint32_t> scratch_;
};

}  // namespace psgd
