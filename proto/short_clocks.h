// Local steps that an epoch cuts short.
#pragma once

#include <cstdint>
#include <string>

#include "proto/config.pb.h"

namespace psgd {

// A clock ends with the epoch. If a worker's batches of an epoch are fewer than the steps of a
// clock: what that means, and what to set. Empty: they are enough.
std::string ShortClocksText(const LocalConfig& local, uint64_t batches_per_epoch, uint64_t workers);

}  // namespace psgd
