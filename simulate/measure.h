// Numbers of a simulated machine, as people write them.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd::sim {

// "12.5us", "3 ns", "1.5s": seconds. A bare 0 is one, other bare numbers are not.
absl::StatusOr<double> ParseSeconds(absl::string_view text);
// "100mbit", "2.5 gbit": bytes a second; "unlimited": 0.
absl::StatusOr<double> ParseRate(absl::string_view text);

// With enough digits to be read back as they were.
std::string FormatSeconds(double seconds);
std::string FormatRate(double bytes_per_second);

}  // namespace psgd::sim
