// Selection of the largest of many numbers in one pass over them, most of the time: a sample
// guesses a magnitude that about as many as wanted reach, and only those are looked at again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/kernels.h"
#include "compression/sparse/select.h"

namespace psgd {

// Numbers that are made block by block, of which the largest are wanted.
class SelectSource {
 public:
  virtual ~SelectSource() = default;
  virtual size_t size() const = 0;
  // kSampleRun of them from `begin` on, as they will be when they are made.
  virtual void Sample(size_t begin, float* run) const = 0;
  // Makes `count` of them.
  virtual void Make(size_t begin, size_t count) = 0;
  // The same, and appends index and value of those whose magnitude bits are at least `least`; how
  // many. REQUIRES: room for count + kGatherSlack.
  virtual size_t Gather(size_t begin, size_t count, uint32_t least, uint32_t* indices,
                        float* values) = 0;
  // All of them, once each is made.
  virtual std::span<const float> Made() const = 0;
};

enum class Selection {
  kExact,    // the `keep` largest, the lower index first among equals
  kSampled,  // what reaches the magnitude that a sample says; the `keep` largest of those where
             // they are many more (Lin et al.'s hierarchical selection), and of all where they are
             // few
};

// Not thread-safe. Keeps its buffers from step to step, to spare allocations.
class LargestSelector {
 public:
  explicit LargestSelector(const CodecKernels& kernels) : kernels_(kernels) {}

  // Makes all numbers of the source and picks among them; about `keep` or, when exact, just `keep`.
  // Fewer where fewer are not zero: zeros are picked only with all others.
  // REQUIRES: keep <= source->size().
  void Select(SelectSource* source, size_t keep, Selection selection);
  // Makes all numbers of the source and picks those that reach `least`.
  void SelectReaching(SelectSource* source, uint32_t least);

  // What was picked, by index.
  std::span<const uint32_t> indices() const { return std::span(indices_).first(count_); }
  std::span<float> values() { return std::span(values_).first(count_); }

 private:
  bool SelectFromSample(SelectSource* source, size_t keep, Selection selection);
  void SelectFromMade(std::span<const float> made, size_t keep);
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
