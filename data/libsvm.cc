#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "data/sparse_table.h"

namespace psgd {
namespace {

// Takes the next word off the front of the line; returns an empty word at its end.
absl::string_view NextWord(absl::string_view* line) {
  *line = absl::StripLeadingAsciiWhitespace(*line);
  const size_t end = line->find_first_of(" \t");
  const absl::string_view word = line->substr(0, end);
  line->remove_prefix(word.size());
  return word;
}

absl::Status BadLine(absl::string_view word, absl::string_view problem) {
  return InvalidArgumentError("\"", std::string(word.substr(0, 40)), "\" ", std::string(problem),
                              "; a line is `label index:value ...`");
}

}  // namespace

absl::Status ParseLibsvm(absl::string_view line, SparseRow* row) {
  row->entries.clear();
  const absl::string_view label = NextWord(&line);
  if (!absl::SimpleAtod(label, &row->label) || !std::isfinite(row->label)) {
    return BadLine(label, "is no label");
  }
  int64_t last = 0;
  for (absl::string_view word = NextWord(&line); !word.empty(); word = NextWord(&line)) {
    const size_t colon = word.find(':');
    int64_t index = 0;
    float value = 0;
    if (colon == absl::string_view::npos || !absl::SimpleAtoi(word.substr(0, colon), &index) ||
        !absl::SimpleAtof(word.substr(colon + 1), &value) || !std::isfinite(value)) {
      return BadLine(word, "is no index:value");
    }
    if (index <= last || index > std::numeric_limits<int32_t>::max()) {
      return BadLine(word,
                     "has an index that is not above the one before it, or below 1, or too large");
    }
    last = index;
    if (value != 0) row->entries.push_back({static_cast<int32_t>(index - 1), value});
  }
  return absl::OkStatus();
}

}  // namespace psgd
