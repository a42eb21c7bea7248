// compression.push: auto, while a worker trains. Once every candidate has been tried, it measures
// the link and has a codec chosen for each tensor. It does so again when the link has changed, or
// when the measurement is old.
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
  // Called with every new choice.
  std::function<void(const CodecChoices&)> report;
};

// Does nothing if no tensor has a choice of codecs. Not thread-safe: belongs to the training
// thread.
class Autotune {
 public:
  // REQUIRES: the encoder and the session outlive this.
  Autotune(AutotuneOptions options, UpdateEncoder* encoder, Session* session);

  // The present step pushes so many bytes now.
  void Pushed(size_t bytes);
  // Call this between two steps. The first of them led to `clock`. Measures and chooses when it is
  // time. REQUIRES: no pull is under way.
  absl::Status BetweenSteps(uint64_t clock);

 private:
  bool Due() const;
  void Tell(uint64_t clock, const LinkSpeed& speed, bool other) const;

  const AutotuneOptions options_;
  const Duration remeasure_;  // the age at which the link is measured again; 0: never
  UpdateEncoder* const encoder_;
  Session* const session_;
  LinkWatch watch_;
  bool measured_ = false;
  Time measured_at_{};
  Duration took_{};  // how long measuring took
};

}  // namespace psgd
