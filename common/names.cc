#include "common/names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "common/utf8.h"

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

// Messages take only valid UTF-8.
std::string Readable(absl::string_view text) {
  text = StartOf(text, kLongestText);
  std::string readable;
  while (!text.empty()) {
    const size_t sound = std::min(FindNonText(text), text.size());
    readable.append(text.data(), sound);
    text.remove_prefix(sound);
    if (text.empty()) break;
    readable.push_back('?');
    text.remove_prefix(1);
  }
  for (char& c : readable) {
    if (absl::ascii_iscntrl(c) && c != '\n') c = '?';
  }
  return readable;
}

}  // namespace psgd
