// Streams and events as a device has them, in host memory: what is put on a stream runs when somebody waits
// for it and not before, or, as the seed has it, much earlier. Who forgets to wait gets other numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/philox.h"

namespace psgd::queued {

// Set each time that a stream comes by; waiting for it means the latest of those.
struct Event {
  int stream = 0;
  uint64_t put = 0, passed = 0;
};

// Not thread-safe.
class Queues {
 public:
  using Work = std::function<void()>;
  Queues(int streams, uint32_t seed) : streams_(streams), chance_({seed, 0}, 0) {}

  // While a recording is made, what is put on streams is kept instead, to be put there by Replay.
  void BeginRecording() { recording_ = true; }
  std::vector<Work> EndRecording() {
    recording_ = false;
    return std::move(recorded_);
  }

  void Put(int stream, Work work) {
    if (Keep([=, this] { Put(stream, work); })) return;
    streams_[stream].push_back(std::move(work));
    // Now and then a device is quick.
    if (chance_.NextBelow(4) == 0) Run(static_cast<int>(chance_.NextBelow(Count())));
  }
  void Set(int stream, const std::shared_ptr<Event>& event) {
    if (Keep([=, this] { Set(stream, event); })) return;
    event->stream = stream;
    const uint64_t number = ++event->put;
    Put(stream, [=] { event->passed = number; });
  }
  // What is put on `stream` from now on comes after the event.
  void Await(int stream, const std::shared_ptr<Event>& event) {
    if (Keep([=, this] { Await(stream, event); })) return;
    const uint64_t number = event->put;
    Put(stream, [=, this] { RunUntil(*event, number); });
  }
  // The host waits.
  void Wait(const Event& event) { RunUntil(event, event.put); }
  void Wait(int stream) {
    while (!streams_[stream].empty()) RunOne(stream);
  }
  void WaitForAll() {
    for (int stream = 0; stream < static_cast<int>(Count()); ++stream) Wait(stream);
  }

 private:
  uint32_t Count() const { return static_cast<uint32_t>(streams_.size()); }
  bool Keep(Work again) {
    if (recording_) recorded_.push_back(std::move(again));
    return recording_;
  }
  void RunOne(int stream) {
    const Work work = std::move(streams_[stream].front());
    streams_[stream].pop_front();
    work();
  }
  void RunUntil(const Event& event, uint64_t number) {
    while (event.passed < number) RunOne(event.stream);
  }
  // A few of what waits there.
  void Run(int stream) {
    for (uint32_t left = chance_.NextBelow(8); left > 0 && !streams_[stream].empty(); --left) {
      RunOne(stream);
    }
  }

  std::vector<std::deque<Work>> streams_;
  RandomStream chance_;
  bool recording_ = false;
  std::vector<Work> recorded_;
};

}  // namespace psgd::queued
