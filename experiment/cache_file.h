// Where programs keep what they can find out again.
#pragma once

#include <string>

namespace psgd {

// In the user's cache folder (XDG_CACHE_HOME, else ~/.cache), in a folder of this product's. Empty: the user has none.
std::string CacheFile(const std::string& name);

}  // namespace psgd
