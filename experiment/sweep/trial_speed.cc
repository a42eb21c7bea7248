#include "experiment/sweep/trial_speed.h"

#include <algorithm>

namespace psgd {
namespace {

// Share of the requested CPU time. Below this, other programs took CPU time.
constexpr double kCalm = 0.8;

}  // namespace

TrialMark TrialMark::Of(const Record& progress) {
  TrialMark mark;
  mark.seconds = NumberIn(progress, "seconds");
  mark.steps = NumberIn(progress, "steps");
  mark.samples = NumberIn(progress, "samples");
  mark.computing = NumberIn(progress, "seconds_compute") + NumberIn(progress, "seconds_encode");
  mark.training = mark.computing;
  for (const char* key : {"seconds_data", "seconds_wait", "seconds_wire", "seconds_apply"}) {
    mark.training += NumberIn(progress, key);
  }
  mark.cpu = NumberIn(progress, "seconds_cpu");
  return mark;
}

TrialSpeed SpeedBetween(const TrialMark& first, const TrialMark& last, const TrialPlace& place) {
  const double workers = place.workers;
  const double samples = last.samples - first.samples;
  TrialSpeed speed;
  speed.samples_per_second = samples / ((last.training - first.training) / workers);
  speed.before = std::max(0.0, first.seconds - first.training / workers);
  const double cores = place.cores;
  // A computing worker needs at least one core, or its share if there are fewer cores.
  const double asked = (last.computing - first.computing) * std::min(1.0, cores / workers);
  const double had = last.cpu - first.cpu;
  if (place.gpus || had <= 0 || had >= kCalm * asked) return speed;
  const double best = samples / had * std::min(cores, workers * place.threads);
  if (best > speed.samples_per_second) speed.at_best = best;
  return speed;
}

}  // namespace psgd
