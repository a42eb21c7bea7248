#include "experiment/launch/server_event.h"

#include <nlohmann/json.hpp>

namespace psgd {

std::string EventOf(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json.value("event", "") : "";
}

}  // namespace psgd
