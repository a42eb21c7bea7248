#include "simulate/shared_resource.h"

#include <cmath>

namespace psgd::sim {

SharedResource::SharedResource(EventQueue* queue, double capacity, double most)
    : queue_(queue), capacity_(capacity), most_(most), start_(queue->now()), passed_(start_) {}

double SharedResource::Rate() const {
  return times_ * most_ <= capacity_ ? most_ : capacity_ / times_;
}

void SharedResource::Pass() {
  const Time now = queue_->now();
  if (!jobs_.empty()) {
    const double done = Rate() * Seconds(now - passed_);
    progress_ += done;
    used_ += done * times_;
  }
  passed_ = now;
}

void SharedResource::Run(double units, double times, EventQueue::Action done) {
  Pass();
  auto kept = done ? std::make_shared<const EventQueue::Action>(std::move(done)) : nullptr;
  jobs_.push_back({progress_ + units, next_++, times, std::move(kept)});
  std::push_heap(jobs_.begin(), jobs_.end(), Later());
  times_ += times;
  Plan();
}

void SharedResource::Plan() {
  if (jobs_.empty()) return;
  const double left = std::max(0.0, jobs_.front().end - progress_) / Rate();
  const Time when = queue_->now() + Duration(static_cast<int64_t>(std::ceil(left * 1e9)));
  // One that comes too early will plan again: more jobs only make each of them later.
  if (planned_ != Time{} && planned_ <= when) return;
  planned_ = when;
  queue_->At(when, [this, when] {
    if (planned_ == when) Look();
  });
}

void SharedResource::Look() {
  planned_ = Time{};
  Pass();
  const double until = progress_ + Rate() * 1e-9;  // events come at whole nanoseconds
  std::vector<std::shared_ptr<const EventQueue::Action>> done;
  while (!jobs_.empty() && jobs_.front().end <= until) {
    std::pop_heap(jobs_.begin(), jobs_.end(), Later());
    times_ -= jobs_.back().times;
    done.push_back(std::move(jobs_.back().done));
    jobs_.pop_back();
  }
  if (jobs_.empty()) times_ = 0;  // sums of fractions leave a little
  Plan();
  for (const auto& action : done) {
    if (action != nullptr) (*action)();
  }
}

double SharedResource::Utilisation() const {
  const double passed = Seconds(queue_->now() - start_);
  return passed <= 0 ? 0 : used_ / (capacity_ * passed);
}

}  // namespace psgd::sim
