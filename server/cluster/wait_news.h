// Tells people what the run waits for: once a wait lasts for longer than a moment, and when the run
// goes on.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/clock.h"
#include "server/cluster/server_effects.h"

namespace psgd {

// Not thread-safe.
class WaitNews {
 public:
  // People are told of a longer wait.
  static constexpr Duration kMoment = std::chrono::seconds(2);

  // What the run waits for now; empty: nothing. `since`: when that wait began; nullopt: now.
  void See(std::string waits, std::optional<Time> since, Time now, ServerEffects* effects);

  // The run waits, and people were told what for.
  bool told() const { return told_; }
  const std::string& waits() const { return waits_; }

 private:
  std::string waits_;
  Time since_{};
  bool told_ = false;
};

}  // namespace psgd
