// Numbers with units, as written in configs and on command lines.
#pragma once

#include <cstdint>
#include <string>
#include "absl/strings/string_view.h"

#include "common/status.h"

namespace psgd {

// "4MiB", "64 KiB", "1GB", "512": bytes.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);
// "100ms", "2s", "1.5 min", "1h": milliseconds. A number without a unit is refused.
absl::StatusOr<int64_t> ParseMilliseconds(absl::string_view text);

// Returns the shortest exact form that the parsers read back: "4MiB", "10s".
std::string FormatBytes(int64_t bytes);
std::string FormatMilliseconds(int64_t milliseconds);

// For people, three digits: "1.23 GB", "45.6 kB".
std::string HumanBytes(double bytes);

}  // namespace psgd
