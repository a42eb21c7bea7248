// A copy's part of a disk, in memory. It outlives the processes of a test.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/cluster/copy_place.h"

namespace psgd {

struct FakeDiskState {
  // Name what lies there. Empty: nothing. "unfinished", "damaged" and "unreadable" are no whole
  // shards; any other name is one.
  std::string place, aside;
  std::string read;        // what was read last
  bool full = false;       // nothing can be created
  bool keeps_old = false;  // what lies aside cannot be discarded
  int operations = -1;     // until the process dies; -1: it lives
};

class FakeDisk final : public CopyDisk {
 public:
  // `make`: makes the options of each shard.
  FakeDisk(FakeDiskState* state, std::function<DurableShardOptions()> make)
      : state_(state), make_(std::move(make)) {}

  bool Exists(CopySpot spot) const override { return !At(spot).empty(); }
  absl::Status Rename(CopySpot from, CopySpot to) override {
    PSGD_RETURN_IF_ERROR(Begin());
    At(to) = std::exchange(At(from), "");
    return absl::OkStatus();
  }
  absl::Status Discard(CopySpot spot) override {
    PSGD_RETURN_IF_ERROR(Begin());
    if (spot == CopySpot::kAside && state_->keeps_old) return absl::UnavailableError("it stays");
    At(spot).clear();
    return absl::OkStatus();
  }
  absl::StatusOr<DurableShardOptions> Create() override {
    PSGD_RETURN_IF_ERROR(Begin());
    state_->place = state_->full ? "" : "unfinished";
    if (state_->full) return absl::ResourceExhaustedError("no space left");
    return make_();
  }
  absl::StatusOr<std::unique_ptr<DurableShard>> Read() override {
    const std::string& place = state_->read = state_->place;
    if (place == "unfinished") return absl::NotFoundError("no image");
    if (place == "unreadable") return absl::UnavailableError("the disk does not answer");
    if (place.empty() || place == "damaged") return absl::DataLossError("damaged");
    return std::make_unique<DurableShard>(make_());
  }

 private:
  std::string& At(CopySpot spot) const {
    return spot == CopySpot::kPlace ? state_->place : state_->aside;
  }
  absl::Status Begin() {
    if (state_->operations > 0) --state_->operations;
    return state_->operations == 0 ? absl::AbortedError("the process died") : absl::OkStatus();
  }

  FakeDiskState* const state_;
  const std::function<DurableShardOptions()> make_;
};

}  // namespace psgd
