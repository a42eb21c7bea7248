#include "data/delimited.h"

#include <algorithm>

namespace psgd {
namespace {

// A tab separates fields, so blanks around a field are spaces only.
absl::string_view WithoutSpaces(absl::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Takes a field in quotes off the front of the line. REQUIRES: the line begins with a quote.
absl::Status TakeQuoted(absl::string_view* line, std::string* field) {
  for (size_t i = 1; i < line->size(); ++i) {
    const bool quote = (*line)[i] == '"';
    if (quote && line->substr(i + 1, 1) != "\"") {
      line->remove_prefix(i + 1);
      return absl::OkStatus();
    }
    field->push_back((*line)[i]);
    if (quote) ++i;
  }
  const absl::string_view shown = line->substr(0, std::min<size_t>(line->find('\n'), 40));
  return OutOfRangeError("the quote before ", shown,
                         " does not end; write a quote in a quoted field as two quotes");
}

}  // namespace

char SeparatorOf(absl::string_view line) {
  size_t tabs = 0, semicolons = 0, commas = 0;
  bool quoted = false;
  for (const char c : line) {
    quoted = quoted != (c == '"');
    if (quoted) continue;
    tabs += c == '\t';
    semicolons += c == ';';
    commas += c == ',';
  }
  const size_t most = std::max({tabs, semicolons, commas});
  return most == commas ? ',' : most == tabs ? '\t' : ';';
}

absl::Status SplitFields(absl::string_view line, char separator, std::vector<std::string>* fields) {
  fields->clear();
  while (true) {
    line = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    std::string field;
    if (!line.empty() && line.front() == '"') {
      PSGD_RETURN_IF_ERROR(TakeQuoted(&line, &field));
      line = WithoutSpaces(line);
      if (!line.empty() && line.front() != separator) {
        return InvalidArgumentError("after the quoted field \"", field.substr(0, 40),
                                    "\" comes more text than a separator; write a quote in a field "
                                    "as two quotes");
      }
    } else {
      const absl::string_view plain = line.substr(0, line.find(separator));
      field = std::string(WithoutSpaces(plain));
      line.remove_prefix(plain.size());
    }
    fields->push_back(std::move(field));
    if (line.empty()) return absl::OkStatus();
    line.remove_prefix(1);
  }
}

}  // namespace psgd
