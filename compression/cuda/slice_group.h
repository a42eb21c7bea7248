// The slices that a device encodes together. Start notes a slice's launches. They run when a slice
// behind another event starts, when the group is large, or when a payload is wanted.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/status.h"
#include "compression/cuda/coder.h"
#include "compression/cuda/copy_out.h"

namespace psgd::cuda {

// For Device see twin_encoder.h. Not thread-safe.
template <typename Device>
class SliceGroup {
 public:
  using Queue = typename Device::Queue;

  // A group whose launches are noted or run.
  struct Flight {
    typename Device::Event done;  // the payloads are on the host
    std::optional<typename Device::Timer> timer;
    bool timed = false, launched = false, done_here = false;
    size_t elements = 0;
  };
  using FlightPtr = std::shared_ptr<Flight>;

  struct Slice {
    size_t elements = 0;
    size_t scratch = 0;  // bytes that Fit found
    bool timed = false;
    std::optional<CopyOutBody> copy{};  // of the payload
  };

  // REQUIRES: `device` outlives the group.
  explicit SliceGroup(Device* device) : device_(device) {}

  // Notes what encode(queue) launches, behind the event `ready` (null: at once).
  template <typename Encode>
  absl::StatusOr<FlightPtr> Start(const Slice& slice, void* ready, Encode encode) {
    // A timed group has timed slices alone, whose codecs are compared.
    const bool joins = flight_ != nullptr && ready == ready_ && flight_->timed == slice.timed &&
                       flight_->elements + slice.elements <= kMostElements &&
                       queue_.scratch_used() + slice.scratch <= scratch_bytes_;
    if (!joins) {
      PSGD_RETURN_IF_ERROR(Flush());
      PSGD_ASSIGN_OR_RETURN(flight_, NewFlight());
      ready_ = ready;
    }
    if (slice.timed && !flight_->timer) {
      PSGD_ASSIGN_OR_RETURN(flight_->timer, device_->NewTimer());
    }
    flight_->timed = slice.timed;
    flight_->elements += slice.elements;
    queue_.BeginSlice();
    encode(queue_);
    if (queue_.scratch_used() > scratch_bytes_) {
      Forget();
      return absl::InternalError("a codec on the device takes more scratch memory than it said");
    }
    if (slice.copy) copies_.push_back(*slice.copy);
    return flight_;
  }

  // Launches what is noted.
  absl::Status Flush() {
    if (flight_ == nullptr) return absl::OkStatus();
    const FlightPtr flight = std::move(flight_);
    const absl::Status status = Launch(flight.get());
    Forget();
    flight->launched = status.ok();
    return status;
  }
  // A slice goes away, with the memory that its last Start uses. If its group is not launched yet,
  // it never is.
  void Remove(const Flight* flight, size_t scratch) {
    if (flight != nullptr && flight == flight_.get()) Forget();
    wanted_scratch_ -= scratch;
  }

  // Waits for the payloads of a group. Launches what is noted, so that it runs meanwhile.
  absl::Status Wait(Flight* flight) {
    PSGD_RETURN_IF_ERROR(Flush());
    if (!flight->launched) {
      return absl::FailedPreconditionError("the group of this slice was not launched");
    }
    if (flight->done_here) return absl::OkStatus();
    PSGD_RETURN_IF_ERROR(device_->Wait(&flight->done));
    flight->done_here = true;
    return absl::OkStatus();
  }
  // Whether Wait would return at once.
  absl::StatusOr<bool> IsDone(Flight* flight) {
    if (!flight->launched || flight->done_here) return flight->launched;
    PSGD_ASSIGN_OR_RETURN(flight->done_here, device_->Passed(&flight->done));
    return flight->done_here;
  }
  // Seconds that a group took. REQUIRES: it was timed and waited for.
  absl::StatusOr<double> SecondsOf(Flight* flight) { return device_->SecondsOf(&*flight->timer); }

  // Runs what encode(queue) launches, at once.
  template <typename Encode>
  absl::Status Run(Encode encode) {
    PSGD_RETURN_IF_ERROR(Flush());
    PSGD_RETURN_IF_ERROR(device_->Begin(nullptr));
    queue_.BeginSlice();
    encode(queue_);
    queue_.Run();
    return device_->TakeError();
  }

  // Makes room for a slice that takes as much scratch memory as encode(queue), or as before: `had`
  // bytes. Returns the larger number.
  template <typename Encode>
  absl::StatusOr<size_t> Fit(size_t had, Encode encode) {
    PSGD_RETURN_IF_ERROR(Flush());
    const size_t bytes = std::max(had, queue_.Measure(encode));
    const size_t wanted = wanted_scratch_ + bytes - had;
    const size_t least = std::max(bytes, std::min(wanted, kMostScratch));
    if (least > scratch_bytes_) {
      const size_t most = std::max(least, std::min(2 * scratch_bytes_, kMostScratch));
      absl::Status made;
      // With less scratch memory groups are smaller.
      for (const size_t room : {most, least, bytes}) {
        if (room <= scratch_bytes_) break;
        made = device_->SetScratch(room);
        if (made.ok()) scratch_bytes_ = room;
        if (!absl::IsResourceExhausted(made)) break;
      }
      if (bytes > scratch_bytes_ || !absl::IsResourceExhausted(made)) PSGD_RETURN_IF_ERROR(made);
    }
    wanted_scratch_ = wanted;
    return bytes;
  }

 private:
  // Copies of a group run beside the launches of the next one.
  static constexpr size_t kMostElements = size_t{8} << 20;
  static constexpr size_t kMostScratch = size_t{64} << 20;  // except for a slice that needs more

  absl::StatusOr<FlightPtr> NewFlight() {
    for (const FlightPtr& flight : flights_) {
      // No encoder waits for it any more.
      if (flight.use_count() > 1) continue;
      flight->timed = flight->launched = flight->done_here = false;
      flight->elements = 0;
      return flight;
    }
    auto flight = std::make_shared<Flight>();
    PSGD_ASSIGN_OR_RETURN(flight->done, device_->NewEvent());
    flights_.push_back(flight);
    return flight;
  }

  absl::Status Launch(Flight* flight) {
    PSGD_RETURN_IF_ERROR(device_->Begin(ready_));
    typename Device::Timer* const timer = flight->timed ? &*flight->timer : nullptr;
    if (timer != nullptr) PSGD_RETURN_IF_ERROR(device_->StartTimer(timer));
    queue_.Run();
    PSGD_RETURN_IF_ERROR(device_->TakeError());
    return device_->StartCopies(copies_, timer, &flight->done);
  }
  void Forget() {
    flight_ = nullptr;
    queue_.Clear();
    copies_.clear();
  }

  Device* const device_;
  Queue queue_{device_->runner()};
  // The group that is noted; null: none.
  FlightPtr flight_;
  void* ready_ = nullptr;
  std::vector<CopyOutBody> copies_;

  std::vector<FlightPtr> flights_;  // all that there are
  size_t wanted_scratch_ = 0;       // by all slices at once
  size_t scratch_bytes_ = 0;
};

}  // namespace psgd::cuda
