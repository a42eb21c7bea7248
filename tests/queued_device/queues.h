// Streams and events as a device has them, in host memory: what is put on a stream runs when somebody waits
// for it and not before, or, as the seed has it, much earlier. Who forgets to wait gets other numbers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/philox.h"
#include "tests/queued_device/asked.h"

namespace psgd::queued {

// Set each time that a stream comes by; waiting for it means the latest of those.
struct Event : std::enable_shared_from_this<Event> {
  int stream = 0;
  uint64_t put = 0, passed = 0;
  uint64_t number = 0;  // in the trace; 0: not set yet
};

// Not thread-safe.
class Queues {
 public:
  using Work = std::function<void()>;
  // `asked`: what hosts ask for goes there.
  Queues(int streams, uint32_t seed, std::vector<Asked>* asked)
      : streams_(streams), asked_(asked), chance_({seed, 0}, 0) {}

  // While a recording is made, what is put on streams is kept instead, to be put there by Replay.
  void BeginRecording() { recording_ = true; }
  std::vector<Work> EndRecording() {
    recording_ = false;
    return std::move(recorded_);
  }

  void Put(int stream, Asked::Kind kind, Work work) {
    if (Keep([=, this] { Put(stream, kind, work); })) return;
    asked_->push_back({kind, stream, 0});
    Add(stream, std::move(work));
  }
  void Set(int stream, const std::shared_ptr<Event>& event) {
    if (Keep([=, this] { Set(stream, event); })) return;
    if (event->number == 0) event->number = ++events_;
    asked_->push_back({Asked::kSetEvent, stream, event->number});
    event->stream = stream;
    const uint64_t number = ++event->put;
    Add(stream, [=] { event->passed = number; });
  }
  // What is put on `stream` from now on comes after the event.
  void Await(int stream, const std::shared_ptr<Event>& event) {
    if (Keep([=, this] { Await(stream, event); })) return;
    asked_->push_back({Asked::kAwaitEvent, stream, event->number});
    const uint64_t number = event->put;
    Add(stream, [=, this] { RunUntil(*event, number); });
  }
  // The host waits.
  void Wait(const Event& event) {
    asked_->push_back({Asked::kWaitForEvent, event.stream, event.number});
    RunUntil(event, event.put);
  }
  void Wait(int stream) {
    asked_->push_back({Asked::kWaitForStream, stream, 0});
    Finish(stream);
  }
  void WaitForAll() {
    asked_->push_back({Asked::kWaitForAll, 0, 0});
    for (int stream = 0; stream < static_cast<int>(Count()); ++stream) Finish(stream);
  }

 private:
  void Add(int stream, Work work) {
    streams_[stream].push_back(std::move(work));
    // Now and then a device is quick.
    if (chance_.NextBelow(4) == 0) Run(static_cast<int>(chance_.NextBelow(Count())));
  }
  void Finish(int stream) {
    while (!streams_[stream].empty()) RunOne(stream);
  }
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
  std::vector<Asked>* const asked_;
  uint64_t events_ = 0;
  RandomStream chance_;
  bool recording_ = false;
  std::vector<Work> recorded_;
};

}  // namespace psgd::queued
