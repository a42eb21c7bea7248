#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "data/sparse_table.h"

namespace psgd {
namespace {

// FNV-1a, then a finalizer. The hash is the same on every machine, because workers must agree.
uint64_t TextHash(uint64_t column, absl::string_view text) {
  uint64_t hash = 0xCBF29CE484222325ull ^ column;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCDull;
  return hash ^ (hash >> 33);
}

}  // namespace

absl::Status ParseCriteo(absl::string_view line, int64_t buckets, SparseRow* row) {
  constexpr size_t kFields = 1 + kCriteoCounts + kCriteoCategories;
  const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
  if (fields.size() != kFields) {
    return InvalidArgumentError(
        fields.size(),
        " fields between tabs, where a line has a label, 13 counts and 26 categories, the empty "
        "ones too; ",
        fields.size() < kFields
            ? "the line is cut short, or its tabs were changed: fetch the file again"
            : "data.format is not what the file holds, or it is damaged");
  }
  if (!absl::SimpleAtod(fields[0], &row->label)) {
    return InvalidArgumentError("its label is \"", std::string(fields[0].substr(0, 40)),
                                "\"; it must be 0 or 1 (clicked)");
  }
  if (row->label != 0 && row->label != 1) {
    return InvalidArgumentError("its label is ", row->label, "; it must be 0 or 1 (clicked)");
  }
  row->entries.clear();
  for (int32_t i = 0; i < kCriteoCounts; ++i) {
    const absl::string_view field = fields[1 + i];
    if (field.empty()) continue;
    double count = 0;
    if (!absl::SimpleAtod(field, &count) || !std::isfinite(count)) {
      return InvalidArgumentError("count ", i + 1, " is \"", std::string(field.substr(0, 40)),
                                  "\", which is no number");
    }
    const auto value = static_cast<float>(count < 0 ? 1 + count : std::log1p(count));
    if (value != 0) row->entries.push_back({i, value});
  }
  for (int32_t i = 0; i < kCriteoCategories; ++i) {
    const absl::string_view field = fields[1 + kCriteoCounts + i];
    if (field.empty()) continue;
    const uint64_t bucket = TextHash(i, field) % static_cast<uint64_t>(buckets);
    row->entries.push_back({static_cast<int32_t>(kCriteoCounts + bucket), 1});
  }
  return absl::OkStatus();
}

}  // namespace psgd
