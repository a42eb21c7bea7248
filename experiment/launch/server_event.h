// The events of ps-server --json on its standard output, one JSON line each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace psgd {

// Returns "ready" (the server leads the run), "joined" or "taking_over". Empty: the line is no
// event.
inline std::string EventOf(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json.value("event", "") : "";
}

}  // namespace psgd
