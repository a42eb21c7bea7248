// What ps-server --json says on its standard output.
#pragma once

#include <string>

namespace psgd {

// "ready" (the server leads the run), "joined" or "taking_over". Empty: the line is no event.
std::string EventOf(const std::string& line);

}  // namespace psgd
