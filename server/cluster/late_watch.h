// Notices that workers keep the others waiting for longer than usual.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/standstill.h"
#include "proto/control.pb.h"

namespace psgd {

struct LateWorkers {
  std::vector<uint32_t> workers;
  uint64_t clock = 0;  // which they have not pushed
  Time since{};        // others have waited since then, for longer than `patience`
  Duration patience{};
  bool silent = false;  // nothing is heard of them any more
};

// For people. `names`: of those workers, at least one. `lease`: in milliseconds.
std::string LateText(const LateWorkers& late, std::span<const std::string> names, int64_t lease);

// Time in which this process stood still does not count: it heard of no clock. Not thread-safe.
class LateWatch {
 public:
  // Workers are not late before this time. If clocks usually take long, the patience is longer: a
  // program may evaluate between two steps, and one machine may be slower than another.
  static constexpr Duration kPatience = std::chrono::seconds(10);
  static constexpr int kUsualClocks = 3;
  // The patience with workers of which nothing is heard any more.
  static constexpr Duration kSilence = std::chrono::seconds(2);

  // The shard's latest report. Call it at least once a second.
  void See(uint32_t shard, const ShardStatus& status, Time now);
  // The late workers of the first shard that has any; nullopt: no worker is late. `is_silent`:
  // whether nothing is heard of a worker.
  std::optional<LateWorkers> Late(Time now, const std::function<bool(uint32_t)>& is_silent) const;
  // Workers have a good reason to be late now, so the waits for them begin anew.
  void Excuse(Time now);
  // Forgets all waits, and how long clocks usually take.
  void Forget() { shards_.clear(); }

 private:
  struct Shard {
    std::vector<uint32_t> late;
    uint64_t clock = 0;
    Time since{};
    uint64_t first_clock = 0;  // when this watch first saw the shard
    Time first{};

    Duration Patience() const;
  };

  std::map<uint32_t, Shard> shards_;
  Standstill standstill_{std::chrono::seconds(1)};
};

}  // namespace psgd
