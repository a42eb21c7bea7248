#include "common/names.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace psgd {
namespace {

constexpr size_t kLongestText = 2000;

}  // namespace

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kLongestName &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

absl::Status CheckPeerName(absl::string_view what, absl::string_view name) {
  if (IsName(name)) return absl::OkStatus();
  return InvalidArgumentError(
      what, " is not a name: 1 to 64 letters, digits, dots, dashes and underscores (it has ",
      name.size(), " characters); choose another with --name");
}

std::string Readable(absl::string_view text) {
  std::string readable(text.substr(0, kLongestText));
  for (char& c : readable) {
    if (absl::ascii_iscntrl(c) && c != '\n') c = '?';
  }
  // Do not cut in the middle of a UTF-8 character.
  while (text.size() > kLongestText && !readable.empty() && (readable.back() & 0x80) != 0) {
    readable.pop_back();
  }
  return readable;
}

}  // namespace psgd
