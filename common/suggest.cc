#include "common/suggest.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

// No known word is longer. The limit also bounds the work that a hostile key can cause.
constexpr size_t kLongestWord = 64;

// Counts the edits that turn `a` into `b`: insert, delete, replace, or swap two neighbors (optimal
// string alignment). Each edit costs 1.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

std::string Suggest(absl::string_view wrong, const std::vector<std::string>& known) {
  if (wrong.empty() || wrong.size() > kLongestWord) return "";
  const std::string lower = absl::AsciiStrToLower(wrong);
  // A third of the letters may be wrong. A higher limit would suggest unrelated short words.
  size_t best = std::max<size_t>(1, wrong.size() / 3) + 1;
  const std::string* closest = nullptr;
  for (const std::string& word : known) {
    if (word.size() > kLongestWord) continue;
    const size_t distance = Distance(lower, absl::AsciiStrToLower(word));
    if (distance < best && distance < word.size()) {
      best = distance;
      closest = &word;
    }
  }
  return closest == nullptr ? "" : absl::StrCat("; did you mean \"", *closest, "\"?");
}

}  // namespace psgd
