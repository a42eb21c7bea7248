#include "simulate/measure.h"

#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace psgd::sim {
namespace {

struct UnitName {
  const char* name;
  double size;
};
constexpr std::array<UnitName, 6> kTimes{
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};
constexpr std::array<UnitName, 4> kRates{
    {{"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}, {"tbit", 1e12 / 8}}};

absl::StatusOr<double> Parse(absl::string_view text, std::span<const UnitName> units,
                             absl::string_view example) {
  size_t end = text.size();
  while (end > 0 && absl::ascii_isalpha(static_cast<unsigned char>(text[end - 1]))) --end;
  const absl::string_view unit = text.substr(end);
  const absl::string_view number = absl::StripAsciiWhitespace(text.substr(0, end));
  double value = 0;
  const bool digits = !number.empty() && number.find_first_not_of("0123456789.eE+-") == number.npos;
  if (digits && absl::SimpleAtod(number, &value) && std::isfinite(value)) {
    if (unit.empty() && value == 0) return 0.0;
    for (const UnitName& known : units) {
      if (unit == known.name) return value * known.size;
    }
  }
  return InvalidArgumentError("expected ", std::string(example), ", got \"", std::string(text),
                              "\"");
}

// In the largest unit that leaves at least 1.
std::string Format(double value, std::span<const UnitName> units) {
  const UnitName* unit = &units.front();
  for (const UnitName& larger : units) {
    if (std::abs(value) >= larger.size * (1 - 1e-12)) unit = &larger;
  }
  char text[32];
  const double shown = std::stod(absl::StrCat(value / unit->size));  // six digits are enough
  return absl::StrCat(std::string(text, std::to_chars(text, text + sizeof text, shown).ptr),
                      unit->name);
}

}  // namespace

absl::StatusOr<double> ParseSeconds(absl::string_view text) {
  return Parse(text, kTimes, "a time such as 12.5us, 3ms or 2s");
}

absl::StatusOr<double> ParseRate(absl::string_view text) {
  if (text == "unlimited") return 0.0;
  constexpr char kExample[] = "the speed of a link, such as 100mbit or 10gbit, or unlimited";
  auto rate = Parse(text, kRates, kExample);
  if (rate.ok() && !(*rate > 0)) {
    return InvalidArgumentError("expected ", kExample, ", got \"", std::string(text),
                                "\", over which nothing would ever come");
  }
  return rate;
}

std::string FormatSeconds(double seconds) {
  return seconds == 0 ? "0s" : Format(seconds, std::span(kTimes).first(4));
}

std::string FormatRate(double bytes_per_second) {
  return bytes_per_second == 0 ? "unlimited" : Format(bytes_per_second, kRates);
}

}  // namespace psgd::sim
