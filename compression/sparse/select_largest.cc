#include "compression/sparse/select_largest.h"

#include <algorithm>

namespace psgd {
namespace {

constexpr size_t kGatherBlock = 2048;

}  // namespace

void LargestSelector::Select(SelectSource* source, size_t keep, Selection selection) {
  const size_t elements = source->size();
  count_ = 0;
  if (keep == 0) {
    source->Make(0, elements);
    return;
  }
  if (WorthSampling(keep, elements)) {
    const uint32_t least = GuessLeast(
        elements, [&](size_t begin, float* run) { source->Sample(begin, run); }, keep,
        selection == Selection::kExact, &scratch_);
    if (SelectFromGuess(source, keep, selection, least)) return;
  } else {
    source->Make(0, elements);
  }
  SelectFromMade(source->Made(), keep, keep == elements);
}

void LargestSelector::SelectNear(SelectSource* source, size_t keep, uint32_t guess) {
  count_ = 0;
  if (SelectFromGuess(source, keep, Selection::kExact, guess)) return;
  SelectFromMade(source->Made(), keep, false);
}

void LargestSelector::SelectReaching(SelectSource* source, uint32_t least) {
  count_ = 0;
  for (size_t begin = 0; begin < source->size(); begin += kGatherBlock) {
    const size_t block = std::min(kGatherBlock, source->size() - begin);
    MakeRoom(block);
    count_ += source->Gather(begin, block, least, &indices_[count_], &values_[count_]);
  }
}

bool LargestSelector::SelectFromGuess(SelectSource* source, size_t keep, Selection selection,
                                      uint32_t least) {
  const size_t elements = source->size();
  const bool exact = selection == Selection::kExact;
  const size_t most = 4 * keep + kGatherBlock;
  size_t begin = 0;
  for (; begin < elements && count_ <= most; begin += kGatherBlock) {
    const size_t block = std::min(kGatherBlock, elements - begin);
    MakeRoom(block);
    count_ += source->Gather(begin, block, least, &indices_[count_], &values_[count_]);
  }
  if (begin < elements) source->Make(begin, elements - begin);
  if (begin >= elements && least == kLeastNotZero && count_ <= keep) return true;  // no others
  if (count_ > most || count_ < (exact ? keep : LeastOf(keep))) {
    count_ = 0;
    return false;
  }
  if (!exact && count_ <= MostOf(keep)) return true;
  Cut cut = FindCut(std::span(values_).first(count_), keep, &scratch_);
  Apply(0, &cut);
  return true;
}

void LargestSelector::SelectFromMade(std::span<const float> made, size_t keep, bool zeros) {
  Cut cut = FindCut(made, keep, &scratch_);
  if (cut.least == 0 && !zeros) cut.ties = 0;
  for (size_t begin = 0; begin < made.size() && count_ < keep; begin += kGatherBlock) {
    const size_t before = count_;
    const size_t block = std::min(kGatherBlock, made.size() - begin);
    MakeRoom(block);
    count_ +=
        kernels_.topk.gather(made.subspan(begin, block), nullptr, cut.least,
                             static_cast<uint32_t>(begin), &indices_[count_], &values_[count_]);
    Apply(before, &cut);
  }
}

void LargestSelector::MakeRoom(size_t more) {
  const size_t room = count_ + more + kGatherSlack;
  if (indices_.size() >= room) return;
  indices_.resize(room + kGatherBlock);
  values_.resize(room + kGatherBlock);
}

void LargestSelector::Apply(size_t begin, Cut* cut) {
  size_t kept = begin;
  for (size_t i = begin; i < count_; ++i) {
    indices_[kept] = indices_[i];
    values_[kept] = values_[i];
    const uint32_t bits = MagnitudeBits(values_[i]);
    const bool tie = bits == cut->least && cut->ties > 0;
    cut->ties -= tie;
    kept += tie || bits > cut->least;
  }
  count_ = kept;
}

}  // namespace psgd
