// What ps-server --json tells on its standard output: a line of JSON an event.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace psgd {

// "ready" (it leads the run), "joined" or "taking_over"; empty: the line tells of none.
inline std::string EventOf(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json.value("event", "") : "";
}

}  // namespace psgd
