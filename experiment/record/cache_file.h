// Where programs keep what they can find out again.
#pragma once

#include <string>

namespace psgd {

// In the user's cache folder (XDG_CACHE_HOME, else ~/.cache), in a folder of this product's. Empty:
// the user has none.
std::string CacheFile(const std::string& name);
// Whether one may write to its end; makes its folders.
bool CanAppend(const std::string& file);

}  // namespace psgd
