// Where programs keep data that they can find out again.
#pragma once

#include <string>

namespace psgd {

// A path in psgd's folder in the user's cache folder (XDG_CACHE_HOME, else ~/.cache). Empty: the
// user has no cache folder.
std::string CacheFile(const std::string& name);
// Returns whether the file can be appended to. Creates its folders.
bool CanAppend(const std::string& file);

}  // namespace psgd
