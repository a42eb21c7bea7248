// What the copies of a shard say to each other, and their options. copy_core.h tells when.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "common/clock.h"
#include "server/cluster/copy_place.h"
#include "server/shard/journal.h"

namespace psgd {

// A message between copies of a shard. `epoch`: the epoch under which the sender leads or follows.
struct CopyMessage {
  // To the leading copy: the sender has these steps.
  struct Has {
    uint64_t log_epoch = 0;  // epoch of its journal; 0: unknown
    uint64_t entries = 0;
    uint64_t copy = 0;  // AssignedCopy.copy
  };
  // The receiver starts anew from this image.
  struct Image {
    std::shared_ptr<const ShardImage> image;
  };
  // The next steps. An empty list is a sign of life.
  struct Steps {
    JournalEntries steps;
    uint64_t checkpoint_done = 0;  // the newest one that was finished
  };
  // To the leading copy: the sender has written the steps up to this one.
  struct Written {
    uint64_t entries = 0;
  };

  // To the leading copy: an image or a large step is on its way here, or is being written.
  struct TakesImage {};

  // How often a copy says that it lives, in the time after which it counts as silent.
  static constexpr int kSignsPerSilence = 5;
  // On a slow link two parts of an image may be this far apart.
  static constexpr Duration kImagePatience = std::chrono::seconds(30);

  uint32_t shard = 0;
  uint64_t epoch = 0;
  std::variant<Has, Image, Steps, Written, TakesImage> what;
};

// A message to the copy on that server.
struct CopySend {
  uint32_t server = 0;
  CopyMessage message;
};

struct CopyOptions {
  uint32_t shard = 0;
  Duration silence{};         // time after which a copy in sync is reported as silent
  size_t window = 16u << 20;  // bytes that may be on their way to another copy
  // Bytes of steps that are kept for copies that lack them. At least twice the weights, because a
  // single step may change all weights.
  size_t kept = 64u << 20;
  std::shared_ptr<CopyPlace> place;
};

}  // namespace psgd
