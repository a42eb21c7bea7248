#include "common/glob.h"

#include <cstddef>

namespace psgd {

bool GlobMatches(absl::string_view glob, absl::string_view name) {
  size_t g = 0, n = 0;
  size_t star = absl::string_view::npos, star_name = 0;  // the last star, and the end of its match
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_name = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (star != absl::string_view::npos) {
      g = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

}  // namespace psgd
