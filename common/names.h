// Makes words from peers and people safe to keep and show.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// Names are shown, logged and used as labels and file names, so they match [A-Za-z0-9._-]{1,64}.
inline constexpr size_t kLongestName = 64;
bool IsName(absl::string_view name);
absl::Status CheckPeerName(absl::string_view what, absl::string_view name);

// Returns a peer's text for people: shortened, without control characters for a terminal.
std::string Readable(absl::string_view text);
}  // namespace psgd
