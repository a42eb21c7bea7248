// compression.push: auto, while a worker trains: lets every candidate be tried, measures the link,
// has each tensor's codec chosen, and does so again when the link has become another.
#pragma once

#include <functional>

#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "proto/config.pb.h"
#include "worker/link_watch.h"
#include "worker/session.h"
#include "worker/update_encoder.h"

namespace psgd {

struct AutotuneOptions {
  CompressionConfig compression;
  uint32_t worker = 0;
  Log log = NullLog();
  // Told of every new choice.
  std::function<void(const CodecChoices&)> report;
};

// Does nothing where no tensor's codec is to be chosen. Not thread-safe: belongs to the training
// thread.
class Autotune {
 public:
  // REQUIRES: both outlive this.
  Autotune(AutotuneOptions options, UpdateEncoder* encoder, Session* session);

  // What a step pushes, as it does.
  void Pushed(size_t bytes);
  // Between two steps, the first of which led to `clock`; measures and chooses when it is time to.
  // REQUIRES: no pull is under way.
  absl::Status BetweenSteps(uint64_t clock);

 private:
  bool Due() const;
  void Tell(uint64_t clock, const LinkSpeed& speed, bool other) const;

  const AutotuneOptions options_;
  const Duration remeasure_;  // 0: never for its age alone
  UpdateEncoder* const encoder_;
  Session* const session_;
  LinkWatch watch_;
  bool measured_ = false;
  Time measured_at_{};
  Duration took_{};  // to measure
};

}  // namespace psgd
