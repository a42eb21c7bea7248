// Words that come from peers and people, fit to be kept and shown.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "common/status.h"

namespace psgd {

// Names are shown, logged and used as labels and files, hence [A-Za-z0-9._-]{1,64}.
inline constexpr size_t kLongestName = 64;
bool IsName(absl::string_view name);
absl::Status CheckPeerName(absl::string_view what, absl::string_view name);

// What a peer says for people to read: cut to a length, without what a terminal would obey.
std::string Readable(absl::string_view text);
}  // namespace psgd
