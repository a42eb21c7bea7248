#include "server/durability/best_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "proto/control.pb.h"
#include "proto/measure_of.h"

namespace psgd {

std::set<uint64_t> GivenUp(std::span<const CheckpointManifest> manifests) {
  std::set<uint64_t> given_up;
  uint64_t first = 0, from = 0;  // of the part of training that the last one that counts is of
  for (const CheckpointManifest& manifest : manifests) {
    if (manifest.id() < first && manifest.id() > from) {
      given_up.insert(manifest.id());
      continue;
    }
    first = manifest.total().first_checkpoint();
    from = manifest.total().resumed_from();
  }
  return given_up;
}

const EvalResult* EvaluationOf(std::span<const CheckpointManifest> manifests, size_t index) {
  const double epoch = manifests[index].epoch_progress();
  for (size_t later = index + 1; later-- > 0;) {
    // From here on a resume from an earlier checkpoint trained the epochs again.
    const bool again =
        later < index && manifests[later].epoch_progress() <= manifests[later + 1].epoch_progress();
    if (again) return nullptr;
    const EvalResult* const found = EvaluationAt(epoch, manifests[later].evaluations());
    if (found != nullptr) return found;
  }
  return nullptr;
}

std::optional<uint64_t> BestOf(std::span<const CheckpointManifest> manifests) {
  std::optional<uint64_t> id;
  Measurement best;
  const std::set<uint64_t> given_up = GivenUp(manifests);
  for (size_t i = manifests.size(); i-- > 0;) {
    if (given_up.contains(manifests[i].id())) continue;
    const EvalResult* const result = EvaluationOf(manifests, i);
    if (result == nullptr) continue;
    const Measurement measure = MeasureOf(*result);
    if (id && !measure.Beats(best, 0)) continue;
    id = manifests[i].id();
    best = measure;
  }
  return id;
}

bool KeepsBest(std::span<const CheckpointManifest> manifests) {
  return !manifests.empty() && manifests.front().config().durability().keep_best();
}

std::set<uint64_t> KeptForBest(std::span<const CheckpointManifest> manifests) {
  std::set<uint64_t> kept;
  if (!KeepsBest(manifests)) return kept;
  if (const auto best = BestOf(manifests)) kept.insert(*best);
  const auto newest = std::ranges::find_if(manifests, [](const CheckpointManifest& manifest) {
    return manifest.epoch_progress() == std::floor(manifest.epoch_progress());
  });
  if (newest == manifests.end()) return kept;
  const auto index = static_cast<size_t>(newest - manifests.begin());
  if (EvaluationOf(manifests, index) == nullptr) kept.insert(newest->id());
  return kept;
}

}  // namespace psgd
