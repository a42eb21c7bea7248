// One direction of the connection between a worker and a shard.
#pragma once

#include <deque>

#include "simulate/shared_resource.h"

namespace psgd::sim {

// The links that a connection goes over; null: nothing there takes time.
struct Route {
  SharedResource* worker_link = nullptr;
  double worker_times = 1;  // connections of the worker that this one stands for
  SharedResource* server_link = nullptr;
  double server_times = 1;  // of the server
  Duration latency{};
};

// Messages arrive in the order in which they were sent. One passes both links at once, and is there
// when the slower of its two shares has carried it. Not thread-safe.
class Connection {
 public:
  Connection(EventQueue* queue, const Route& route) : queue_(queue), route_(route) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Send(double bytes, EventQueue::Action arrive) {
    if (route_.worker_link == nullptr && route_.server_link == nullptr) {
      queue_->After(route_.latency, std::move(arrive));
      return;
    }
    waiting_.push_back({bytes, std::move(arrive)});
    if (waiting_.size() == 1) Start();
  }

 private:
  struct Waiting {
    double bytes = 0;
    EventQueue::Action arrive;
  };

  void Start() {
    const double bytes = waiting_.front().bytes;
    links_left_ = (route_.worker_link != nullptr) + (route_.server_link != nullptr);
    const auto passed = [this] {
      if (--links_left_ == 0) Finish();
    };
    if (route_.worker_link != nullptr) route_.worker_link->Run(bytes, route_.worker_times, passed);
    if (route_.server_link != nullptr) route_.server_link->Run(bytes, route_.server_times, passed);
  }

  void Finish() {
    queue_->After(route_.latency, std::move(waiting_.front().arrive));
    waiting_.pop_front();
    if (!waiting_.empty()) Start();
  }

  EventQueue* const queue_;
  const Route route_;
  std::deque<Waiting> waiting_;  // the first of them is on its way
  int links_left_ = 0;
};

}  // namespace psgd::sim
