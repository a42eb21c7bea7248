// A link or the processors of a host, shared equally by all that use it at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simulate/event_queue.h"

namespace psgd::sim {

// Processor sharing: every job goes on at the same rate. The rate is `most`, or an equal part of
// `capacity` if that is less. A link has a capacity in bytes a second, and one job may have all of
// it. The capacity of processors is their number, and a thread keeps one busy. Not thread-safe.
class SharedResource {
 public:
  // REQUIRES: capacity > 0, most > 0.
  SharedResource(EventQueue* queue, double capacity, double most);

  // Runs `done` when so many units (bytes, seconds of a processor) are through. `times`: how many
  // alike the job stands for.
  void Run(double units, double times, EventQueue::Action done);

  // The share of its capacity that was used since the start.
  double Utilisation() const;

 private:
  struct Job {
    double end = 0;  // in `progress_`
    uint64_t number = 0;
    double times = 1;
    std::shared_ptr<const EventQueue::Action> done;  // cheap to move within a heap
  };
  struct Later {
    bool operator()(const Job& a, const Job& b) const {
      return a.end != b.end ? a.end > b.end : a.number > b.number;
    }
  };

  double Rate() const;
  // Takes up what was done since the last time.
  void Pass();
  // Sees to it that somebody looks when the next job ends.
  void Plan();
  void Look();

  EventQueue* const queue_;
  const double capacity_;
  const double most_;
  const Time start_;
  double progress_ = 0;  // of a job that was there from the start
  double times_ = 0;     // of all jobs
  double used_ = 0;      // units, over all jobs
  Time passed_;          // until when these are right
  Time planned_{};       // when Look comes next; the epoch: it does not
  uint64_t next_ = 0;
  std::vector<Job> jobs_;  // a heap, the first to end first
};

}  // namespace psgd::sim
