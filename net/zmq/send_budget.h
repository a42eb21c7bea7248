// How many bytes are on their way to each peer: ZeroMQ bounds its queues by messages alone, and a
// peer that reads nothing would be given a thousand of them, of many MiB each.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "common/bytes.h"
#include "net/transport.h"

namespace psgd {

// One thread's; what has left is told from any thread.
class SendBudget {
 public:
  explicit SendBudget(size_t bytes) : bytes_(bytes) {}

  // Whether so many more may be queued; a message larger than all of it goes alone.
  bool Fits(PeerId peer, size_t size) const {
    const auto found = queued_.find(peer);
    const size_t queued = found == queued_.end() ? 0 : found->second->load();
    return queued == 0 || queued + size <= bytes_;
  }

  // The same frames, which count until nobody holds them any more.
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
  static constexpr size_t kMostRemembered = 4096;  // peers to whom nothing is on its way

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
