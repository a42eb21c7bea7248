#include "common/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

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

struct RealUnit {
  const char* name;
  double size;
};
constexpr std::array<RealUnit, 6> kRealTimes{
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};
constexpr std::array<RealUnit, 4> kRates{
    {{"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}, {"tbit", 1e12 / 8}}};

absl::StatusOr<double> ParseReal(absl::string_view text, std::span<const RealUnit> units,
                                 absl::string_view example) {
  size_t end = text.size();
  while (end > 0 && absl::ascii_isalpha(static_cast<unsigned char>(text[end - 1]))) --end;
  const absl::string_view unit = text.substr(end);
  const absl::string_view number = absl::StripAsciiWhitespace(text.substr(0, end));
  double value = 0;
  const bool digits = !number.empty() && number.find_first_not_of("0123456789.eE+-") == number.npos;
  if (digits && absl::SimpleAtod(number, &value) && std::isfinite(value)) {
    if (unit.empty() && value == 0) return 0.0;
    for (const RealUnit& known : units) {
      if (unit == known.name) return value * known.size;
    }
  }
  return InvalidArgumentError("expected ", std::string(example), ", got \"", std::string(text),
                              "\"");
}

// In the largest unit that leaves at least 1.
std::string FormatReal(double value, std::span<const RealUnit> units) {
  const RealUnit* unit = &units.front();
  for (const RealUnit& larger : units) {
    if (std::abs(value) >= larger.size * (1 - 1e-12)) unit = &larger;
  }
  char text[32];
  const double shown = std::stod(absl::StrCat(value / unit->size));  // six digits are enough
  return absl::StrCat(std::string(text, std::to_chars(text, text + sizeof text, shown).ptr),
                      unit->name);
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

absl::StatusOr<double> ParseSeconds(absl::string_view text) {
  return ParseReal(text, kRealTimes, "a time such as 12.5us, 3ms or 2s");
}

absl::StatusOr<double> ParseRate(absl::string_view text) {
  if (text == "unlimited") return 0.0;
  constexpr char kExample[] = "the speed of a link, such as 100mbit or 10gbit, or unlimited";
  auto rate = ParseReal(text, kRates, kExample);
  if (rate.ok() && !(*rate > 0)) {
    return InvalidArgumentError("expected ", kExample, ", got \"", std::string(text),
                                "\", over which nothing would ever come");
  }
  return rate;
}

std::string FormatSeconds(double seconds) {
  return seconds == 0 ? "0s" : FormatReal(seconds, std::span(kRealTimes).first(4));
}

std::string FormatRate(double bytes_per_second) {
  return bytes_per_second == 0 ? "unlimited" : FormatReal(bytes_per_second, kRates);
}

}  // namespace psgd
