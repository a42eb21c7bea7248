#include "common/units.h"

#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace psgd {
namespace {

struct NamedUnit {
  absl::string_view name;
  int64_t factor;
};

constexpr std::array<NamedUnit, 9> kByteUnits{{{"", 1},
                                               {"B", 1},
                                               {"KiB", int64_t{1} << 10},
                                               {"MiB", int64_t{1} << 20},
                                               {"GiB", int64_t{1} << 30},
                                               {"kB", 1000},
                                               {"KB", 1000},
                                               {"MB", 1000 * 1000},
                                               {"GB", 1000 * 1000 * 1000}}};

constexpr std::array<NamedUnit, 5> kTimeUnits{
    {{"ms", 1}, {"s", 1000}, {"min", 60 * 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}}};

template <size_t N>
absl::StatusOr<int64_t> Parse(absl::string_view text, const std::array<NamedUnit, N>& units,
                              absl::string_view examples) {
  text = absl::StripAsciiWhitespace(text);
  const size_t end = text.find_first_not_of("0123456789.+-");
  const absl::string_view number = text.substr(0, end);
  const absl::string_view unit =
      end == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(text.substr(end));
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !std::isfinite(value)) {
    return InvalidArgumentError("\"", text, "\" does not start with a number; write it as ",
                                examples);
  }
  // Whole numbers are scaled as integers: a double would round numbers above 2^53.
  int64_t whole = 0;
  const bool is_whole = absl::SimpleAtoi(number, &whole);
  for (const NamedUnit& known : units) {
    if (known.name != unit) continue;
    int64_t exact = 0;
    if (is_whole && !__builtin_mul_overflow(whole, known.factor, &exact)) return exact;
    const double scaled = std::round(value * static_cast<double>(known.factor));
    if (std::abs(scaled) >= static_cast<double>(std::numeric_limits<int64_t>::max())) {
      return InvalidArgumentError("\"", text, "\" is too large");
    }
    return static_cast<int64_t>(scaled);
  }
  return InvalidArgumentError("\"", text, "\" has ", unit.empty() ? "no unit" : "an unknown unit",
                              "; write it as ", examples);
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  return Parse(text, kByteUnits, "4MiB, 64KiB or 512");
}

absl::StatusOr<int64_t> ParseMilliseconds(absl::string_view text) {
  return Parse(text, kTimeUnits, "100ms, 2s, 5min or 1h");
}

std::string FormatBytes(int64_t bytes) {
  constexpr std::array<NamedUnit, 3> kBinary{
      {{"GiB", int64_t{1} << 30}, {"MiB", int64_t{1} << 20}, {"KiB", int64_t{1} << 10}}};
  for (const NamedUnit& unit : kBinary) {
    if (bytes != 0 && bytes % unit.factor == 0) return absl::StrCat(bytes / unit.factor, unit.name);
  }
  return absl::StrCat(bytes);
}

std::string FormatMilliseconds(int64_t milliseconds) {
  if (milliseconds != 0 && milliseconds % 1000 == 0) return absl::StrCat(milliseconds / 1000, "s");
  return absl::StrCat(milliseconds, "ms");
}

std::string HumanBytes(double bytes) {
  constexpr std::array<absl::string_view, 5> kNames{"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 999.5 && unit + 1 < kNames.size()) {
    bytes /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f %s", decimals, bytes, kNames[unit]);
}

}  // namespace psgd
