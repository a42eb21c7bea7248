// Streams and events as a device has them, in host memory: what is put on a stream runs when
// somebody waits for it and not before, or, as the seed has it, much earlier. Who forgets to wait
// gets other numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "common/philox.h"
#include "tests/fakes/queued_device/asked.h"

namespace psgd::queued {

using Work = std::function<void()>;
// What is put on the streams of a recording, to be put there again.
using Tape = std::vector<Work>;

// Set each time that a stream comes by; waiting for it means the latest of those.
struct Event : std::enable_shared_from_this<Event> {
  struct Pass {
    int stream;
    bool done = false;
  };
  std::shared_ptr<Pass> latest;  // null: not set yet
  uint64_t number = 0;           // in the trace; 0: not set yet
  std::weak_ptr<Tape> tape;      // that it was set in, and orders streams of
};

class Queues {
 public:
  // `asked`: what hosts ask for goes there.
  Queues(int streams, uint32_t seed, std::vector<Asked>* asked)
      : slow_(seed % 4 == 3 ? kUploads : 0),
        streams_(streams),
        asked_(asked),
        chance_({seed, 0}, 0) {}

  int AddStream() {
    std::lock_guard lock(mutex_);
    streams_.emplace_back();
    return static_cast<int>(streams_.size()) - 1;
  }

  // While a recording is made, what is put on its streams is kept instead. It begins with one
  // stream; those join that come to wait for an event that was set in it.
  void BeginRecording(int stream) {
    std::lock_guard lock(mutex_);
    recordings_[stream] = std::make_shared<Tape>();
  }
  bool Records(int stream) {
    std::lock_guard lock(mutex_);
    return recordings_.contains(stream);
  }
  Tape EndRecording(int stream) {
    std::lock_guard lock(mutex_);
    const std::shared_ptr<Tape> ended = recordings_.at(stream);
    std::erase_if(recordings_, [&](const auto& other) { return other.second == ended; });
    return std::move(*ended);
  }

  void Put(int stream, Asked::Kind kind, Work work) {
    std::lock_guard lock(mutex_);
    if (Keep(stream, [=, this] { Put(stream, kind, work); })) return;
    asked_->push_back({kind, stream, 0});
    Add(stream, std::move(work));
  }
  // `external`: in a recording, for others than its streams.
  void Set(int stream, const std::shared_ptr<Event>& event, bool external = false) {
    std::lock_guard lock(mutex_);
    const bool kept = Keep(stream, [=, this] { Set(stream, event); });
    event->tape = kept && !external ? recordings_.at(stream) : nullptr;
    if (kept) return;
    if (event->number == 0) event->number = ++events_;
    asked_->push_back({Asked::kSetEvent, stream, event->number});
    event->latest = std::make_shared<Event::Pass>(stream);
    Add(stream, [pass = event->latest] { pass->done = true; });
  }
  // What is put on `stream` from now on comes after the event.
  void Await(int stream, const std::shared_ptr<Event>& event) {
    std::lock_guard lock(mutex_);
    if (auto tape = event->tape.lock()) recordings_[stream] = std::move(tape);
    if (Keep(stream, [=, this] { Await(stream, event); })) return;
    asked_->push_back({Asked::kAwaitEvent, stream, event->number});
    Add(stream, [pass = event->latest, this] { RunUntil(pass.get()); });
  }
  // The host asks, and the device goes on.
  bool Passed(const Event& event) {
    std::lock_guard lock(mutex_);
    const std::shared_ptr<Event::Pass> pass = event.latest;
    if (pass == nullptr) return true;
    if (!pass->done) BeQuick(2);
    if (!pass->done && chance_.NextBelow(16) == 0) Run(pass->stream);
    return pass->done;
  }
  // The host waits.
  void Wait(const Event& event) {
    std::lock_guard lock(mutex_);
    const std::shared_ptr<Event::Pass> pass = event.latest;
    asked_->push_back({Asked::kWaitForEvent, pass == nullptr ? 0 : pass->stream, event.number});
    RunUntil(pass.get());
  }
  void Wait(int stream) {
    std::lock_guard lock(mutex_);
    asked_->push_back({Asked::kWaitForStream, stream, 0});
    Finish(stream);
  }
  void WaitForAll() {
    std::lock_guard lock(mutex_);
    asked_->push_back({Asked::kWaitForAll, 0, 0});
    for (int stream = 0; stream < static_cast<int>(Count()); ++stream) Finish(stream);
  }

 private:
  void Add(int stream, Work work) {
    streams_[stream].push_back(std::move(work));
    BeQuick(4);
  }
  // Once in so many times a device is quick.
  void BeQuick(uint32_t times) {
    if (Count() <= slow_ || chance_.NextBelow(times) > 0) return;
    Run(static_cast<int>(slow_ + chance_.NextBelow(Count() - slow_)));
  }
  void Finish(int stream) {
    while (!streams_[stream].empty()) RunOne(stream);
  }
  uint32_t Count() const { return static_cast<uint32_t>(streams_.size()); }
  bool Keep(int stream, Work again) {
    const auto found = recordings_.find(stream);
    if (found == recordings_.end()) return false;
    found->second->push_back(std::move(again));
    return true;
  }
  void RunOne(int stream) {
    const Work work = std::move(streams_[stream].front());
    streams_[stream].pop_front();
    work();
  }
  void RunUntil(const Event::Pass* pass) {
    while (pass != nullptr && !pass->done) RunOne(pass->stream);
  }
  // A few of what waits there.
  void Run(int stream) {
    for (uint32_t left = chance_.NextBelow(8); left > 0 && !streams_[stream].empty(); --left) {
      RunOne(stream);
    }
  }

  // The first so many streams are never quick, so that copies to the device come before what its
  // kernels had to do first.
  const uint32_t slow_;
  std::recursive_mutex mutex_;  // work puts work and waits, too
  std::vector<std::deque<Work>> streams_;
  std::vector<Asked>* const asked_;
  uint64_t events_ = 0;
  RandomStream chance_;
  std::map<int, std::shared_ptr<Tape>> recordings_;  // by stream
};

}  // namespace psgd::queued
