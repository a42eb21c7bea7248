// Commands as people and shells write them.
#pragma once

#include <string>
#include <vector>

namespace psgd {

// Quotes the words into one line that a shell splits into the same words.
std::string ShellLine(const std::vector<std::string>& words);

}  // namespace psgd
