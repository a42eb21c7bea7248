// Lines of values between separators, as in CSV and TSV files (RFC 4180). A field in double quotes
// may contain separators and line ends, and two quotes in it stand for one.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// The separator that occurs most in the first line of a file, outside of quotes: tab, semicolon or
// comma. A line without any of them has one column, and its separator is a comma.
char SeparatorOf(absl::string_view line);

// Splits a line into `fields`, without quotes and without blanks around a field. OutOfRange: a
// quote does not end, so the next line may belong to the field.
absl::Status SplitFields(absl::string_view line, char separator, std::vector<std::string>* fields);

}  // namespace psgd
