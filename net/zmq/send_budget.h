// Counts the bytes on their way to each peer. ZeroMQ bounds its queues by messages alone, so a peer
// that reads nothing could hold a thousand messages of many MiB each.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "common/bytes.h"
#include "net/transport.h"

namespace psgd {

// Belongs to one thread. Frames may be released on any thread.
class SendBudget {
 public:
  explicit SendBudget(size_t bytes) : bytes_(bytes) {}

  // Whether `size` more bytes may be queued. A message larger than the whole budget goes alone.
  bool Fits(PeerId peer, size_t size) const {
    const auto found = queued_.find(peer);
    const size_t queued = found == queued_.end() ? 0 : found->second->load();
    return queued == 0 || queued + size <= bytes_;
  }

  // Returns the same frames; their bytes count until the last reference is released.
  std::vector<Bytes> Take(PeerId peer, const std::vector<Bytes>& frames) {
    if (queued_.size() >= kMostRemembered) {
      std::erase_if(queued_, [](const auto& entry) { return entry.second->load() == 0; });
    }
    auto& counter = queued_[peer];
    if (!counter) counter = std::make_shared<std::atomic<size_t>>(0);
    std::vector<Bytes> counted;
    for (const Bytes& frame : frames) {
      counter->fetch_add(frame.size());
      counted.emplace_back(std::make_shared<const Ticket>(frame, counter), frame.span());
    }
    return counted;
  }

  void Forget(PeerId peer) { queued_.erase(peer); }

 private:
  static constexpr size_t kMostRemembered = 4096;  // beyond it, idle peers are forgotten

  struct Ticket {
    Ticket(const Bytes& frame, std::shared_ptr<std::atomic<size_t>> counter)
        : frame(frame), counter(std::move(counter)) {}
    ~Ticket() { counter->fetch_sub(frame.size()); }
    const Bytes frame;
    const std::shared_ptr<std::atomic<size_t>> counter;
  };

  const size_t bytes_;
  std::map<PeerId, std::shared_ptr<std::atomic<size_t>>> queued_;
};

}  // namespace psgd
