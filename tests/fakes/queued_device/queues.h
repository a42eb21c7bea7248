// A device's streams and events in host memory. Work on a stream runs as late as possible, when a
// wait needs it, or, by the seed, much earlier. So a missing wait changes numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/philox.h"
#include "tests/fakes/queued_device/asked.h"

namespace psgd::queued {

using Work = std::function<void()>;
// Work that may come too early: then it returns false, and the stream tries it again later.
using Attempt = std::function<bool()>;
// The recorded work, which a replay puts on the streams again.
using Tape = std::vector<Work>;
// How many pieces of work of each stream a recording has.
using Counts = std::map<int, uint64_t>;

// What a recording knows of its streams.
struct Recorded {
  Tape tape;
  Counts made;
  std::map<int, Counts> before;  // by stream: what lies before its next work, of other streams
};

// A stream may set an event many times. A wait is for the latest time.
struct Event : std::enable_shared_from_this<Event> {
  struct Pass {
    int stream;
    bool done = false;
  };
  std::shared_ptr<Pass> latest;       // null: not set yet
  uint64_t number = 0;                // in the trace; 0: not set yet
  std::weak_ptr<Recorded> recording;  // the one that set it and whose streams it orders
  Counts before;                      // the recorded work that it waits for
};

// A place where streams wait for each other.
struct Meeting {
  struct Member : Event::Pass {
    Member() : Pass{kAbsent} {}
    bool leaves = false;  // it waits no longer, and the others wait in vain
  };
  static constexpr int kAbsent = -1;  // the stream of a member whose Meet is not called yet

  explicit Meeting(size_t members) : members(members) {}

  std::vector<Member> members;
  Work work;  // runs once all members are there
  bool over = false;
};

// The host's waits return false if all that is left waits for a meeting that lacks a call of Meet.
class Queues {
 public:
  // `asked`: the trace to append the host's calls to.
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

  // A recording keeps the work on its streams instead of running it. It begins with one stream. A
  // stream that waits for an event of the recording joins it.
  void BeginRecording(int stream) {
    std::lock_guard lock(mutex_);
    recordings_[stream] = std::make_shared<Recorded>();
  }
  bool Records(int stream) {
    std::lock_guard lock(mutex_);
    return recordings_.contains(stream);
  }
  // Whether all work of the recording lies before the next work on the stream.
  bool Joined(int stream) {
    std::lock_guard lock(mutex_);
    Recorded& recorded = *recordings_.at(stream);
    for (const auto& [other, made] : recorded.made) {
      if (other != stream && recorded.before[stream][other] < made) return false;
    }
    return true;
  }
  // Whether a wait of the stream for the event would leave the stream's recording.
  bool LeavesRecording(int stream, const Event& event) {
    std::lock_guard lock(mutex_);
    const auto found = recordings_.find(stream);
    return found != recordings_.end() && event.recording.lock() != found->second;
  }
  Tape EndRecording(int stream) {
    std::lock_guard lock(mutex_);
    const std::shared_ptr<Recorded> ended = recordings_.at(stream);
    std::erase_if(recordings_, [&](const auto& other) { return other.second == ended; });
    return std::move(ended->tape);
  }

  void Put(int stream, Asked::Kind kind, Work work) {
    std::lock_guard lock(mutex_);
    if (Keep(stream, [=, this] { Put(stream, kind, work); })) {
      ++recordings_.at(stream)->made[stream];
      return;
    }
    asked_->push_back({kind, stream, 0});
    AddWork(stream, std::move(work));
  }
  // Later work on `stream` runs after the meeting. REQUIRES: the stream is not recorded.
  void Meet(int stream, const std::shared_ptr<Meeting>& meeting, size_t member) {
    std::lock_guard lock(mutex_);
    asked_->push_back({Asked::kLaunch, stream, 0});
    meeting->members[member].stream = stream;
    Add(stream, [=, this] { return Attend(*meeting, member); });
  }
  // `external`: in a recording, the event is for waits outside of the recording.
  void Set(int stream, const std::shared_ptr<Event>& event, bool external = false) {
    std::lock_guard lock(mutex_);
    const bool kept = Keep(stream, [=, this] { Set(stream, event); });
    event->recording = kept && !external ? recordings_.at(stream) : nullptr;
    if (kept) {
      Recorded& recorded = *recordings_.at(stream);
      event->before = recorded.before[stream];
      event->before[stream] = recorded.made[stream];
      return;
    }
    if (event->number == 0) event->number = ++events_;
    asked_->push_back({Asked::kSetEvent, stream, event->number});
    event->latest = std::make_shared<Event::Pass>(stream);
    AddWork(stream, [pass = event->latest] { pass->done = true; });
  }
  // Later work on `stream` runs after the event.
  void Await(int stream, const std::shared_ptr<Event>& event) {
    std::lock_guard lock(mutex_);
    if (auto recording = event->recording.lock()) {
      for (const auto& [other, count] : event->before) {
        uint64_t& known = recording->before[stream][other];
        known = std::max(known, count);
      }
      ++recording->made[stream];
      recordings_[stream] = std::move(recording);
    }
    if (Keep(stream, [=, this] { Await(stream, event); })) return;
    asked_->push_back({Asked::kAwaitEvent, stream, event->number});
    Add(stream, [pass = event->latest, this] { return RunUntil(pass.get()); });
  }
  // The host polls, and the device goes on.
  bool Passed(const Event& event) {
    std::lock_guard lock(mutex_);
    const std::shared_ptr<Event::Pass> pass = event.latest;
    if (pass == nullptr) return true;
    if (!pass->done) BeQuick(2);
    if (!pass->done && chance_.NextBelow(16) == 0) Run(pass->stream);
    return pass->done;
  }
  // The host waits for the event.
  bool Wait(const Event& event) {
    std::lock_guard lock(mutex_);
    const std::shared_ptr<Event::Pass> pass = event.latest;
    asked_->push_back({Asked::kWaitForEvent, pass == nullptr ? 0 : pass->stream, event.number});
    return RunUntil(pass.get());
  }
  bool Wait(int stream) {
    std::lock_guard lock(mutex_);
    asked_->push_back({Asked::kWaitForStream, stream, 0});
    return Finish(stream);
  }
  bool WaitForAll() {
    std::lock_guard lock(mutex_);
    asked_->push_back({Asked::kWaitForAll, 0, 0});
    bool all = true;
    for (int stream = 0; stream < static_cast<int>(Count()); ++stream) all = Finish(stream) && all;
    return all;
  }

 private:
  void Add(int stream, Attempt attempt) {
    streams_[stream].push_back(std::move(attempt));
    BeQuick(4);
  }
  void AddWork(int stream, Work work) {
    Add(stream, [work = std::move(work)] {
      work();
      return true;
    });
  }
  // Once in `times` calls the device runs some work early.
  void BeQuick(uint32_t times) {
    if (Count() <= slow_ || chance_.NextBelow(times) > 0) return;
    Run(static_cast<int>(slow_ + chance_.NextBelow(Count() - slow_)));
  }
  bool Finish(int stream) {
    while (!streams_[stream].empty()) {
      if (!RunOne(stream)) return false;
    }
    return true;
  }
  uint32_t Count() const { return static_cast<uint32_t>(streams_.size()); }
  bool Keep(int stream, Work again) {
    const auto found = recordings_.find(stream);
    if (found == recordings_.end()) return false;
    found->second->tape.push_back(std::move(again));
    return true;
  }
  bool RunOne(int stream) {
    Attempt attempt = std::move(streams_[stream].front());
    streams_[stream].pop_front();
    if (attempt()) return true;
    streams_[stream].push_front(std::move(attempt));
    return false;
  }
  bool RunUntil(const Event::Pass* pass) {
    while (pass != nullptr && !pass->done) {
      if (!RunOne(pass->stream) && !pass->done) return false;
    }
    return true;
  }
  // Runs the other members' streams until they are there, too.
  bool Attend(Meeting& meeting, size_t member) {
    meeting.members[member].done = true;
    for (const Meeting::Member& other : meeting.members) {
      if (meeting.over || meeting.members[member].leaves) return true;
      if (other.stream == Meeting::kAbsent || other.leaves || !RunUntil(&other)) return false;
    }
    // The streams that ran meanwhile may have ended it.
    if (!std::exchange(meeting.over, true)) meeting.work();
    return true;
  }
  // Runs a few pieces of the stream's work.
  void Run(int stream) {
    for (uint32_t left = chance_.NextBelow(8); left > 0 && !streams_[stream].empty(); --left) {
      if (!RunOne(stream)) return;
    }
  }

  // The first `slow_` streams never run early, so that copies to the device overtake kernels that
  // are launched before them.
  const uint32_t slow_;
  std::recursive_mutex mutex_;  // recursive, because work also puts work and waits
  std::vector<std::deque<Attempt>> streams_;
  std::vector<Asked>* const asked_;
  uint64_t events_ = 0;
  RandomStream chance_;
  std::map<int, std::shared_ptr<Recorded>> recordings_;  // by stream
};

}  // namespace psgd::queued
