#include "experiment/record/readable.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace psgd {
namespace {

std::string ThreeDigits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f", decimals, value);
}

bool LooksNumeric(const std::string& cell) {
  return cell.empty() || cell == "-" || absl::ascii_isdigit(cell.front());
}

}  // namespace

std::string ReadableCount(double count) {
  constexpr std::array<const char*, 4> kUnits{"", " k", " M", " G"};
  size_t unit = 0;
  while (count >= 999.5 && unit + 1 < kUnits.size()) {
    count /= 1000;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f", count)
                   : absl::StrCat(ThreeDigits(count), kUnits[unit]);
}

std::string ReadableTime(double seconds) {
  if (!(seconds >= 0) || seconds > 1e7) return "?";
  if (seconds < 9.95) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string ReadableEpoch(double epoch) {
  return epoch == std::floor(epoch) ? absl::StrFormat("%.0f", epoch)
                                    : absl::StrFormat("%.2f", epoch);
}

std::string ReadableLoss(double loss) {
  return std::abs(loss) < 1e6 ? absl::StrFormat("%.4f", loss) : absl::StrFormat("%.4g", loss);
}

std::string ReadablePercent(double share) { return absl::StrFormat("%.2f %%", share * 100); }
std::string ShortPercent(double share) { return absl::StrFormat("%.4g %%", share * 100); }
std::string NameOrDash(const std::string& name) { return name.empty() ? "-" : name; }
std::string WholePercent(double share) { return absl::StrFormat("%.0f %%", share * 100); }

std::string ReadableRatio(double dense, double sent) {
  if (!(sent > 0)) return "";
  const double ratio = dense / sent;
  return ratio < 9.95 ? absl::StrFormat("%.1fx", ratio) : absl::StrFormat("%.0fx", ratio);
}

std::string TextTable::Text() const {
  std::vector<size_t> widths;
  std::vector<bool> numeric;
  for (size_t r = 0; r < rows_.size(); ++r) {
    widths.resize(std::max(widths.size(), rows_[r].size()));
    numeric.resize(widths.size(), true);
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      widths[c] = std::max(widths[c], rows_[r][c].size());
      if (r > 0 && !LooksNumeric(rows_[r][c])) numeric[c] = false;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      absl::StrAppend(&line, "  ", numeric[c] ? padding : "", row[c], numeric[c] ? "" : padding);
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

}  // namespace psgd
