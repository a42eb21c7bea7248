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
// "12.5us", "3 ns", "1.5s": seconds. A bare 0 is one, other bare numbers are not.
absl::StatusOr<double> ParseSeconds(absl::string_view text);
// "100mbit", "2.5 gbit": bytes a second; "unlimited": 0.
absl::StatusOr<double> ParseRate(absl::string_view text);

// Returns the shortest exact form that the parsers read back: "4MiB", "10s".
std::string FormatBytes(int64_t bytes);
std::string FormatMilliseconds(int64_t milliseconds);
// With enough digits to be read back as they were.
std::string FormatSeconds(double seconds);
std::string FormatRate(double bytes_per_second);

// For people, three digits: "1.23 GB", "45.6 kB".
std::string HumanBytes(double bytes);

}  // namespace psgd
