#include "experiment/launch/server_event.h"

#include <nlohmann/json.hpp>

namespace psgd {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(20);

}  // namespace

std::string EventOf(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json.value("event", "") : "";
}

absl::StatusOr<std::optional<std::string>> AwaitJoined(ChildProcess& server, Duration deadline,
                                                       const std::function<bool()>& gives_up) {
  const Time start = SteadyNow();
  while (server.Running() && SteadyNow() - start < deadline) {
    if (gives_up()) return std::nullopt;
    const auto line = server.ReadLine(kLook);
    if (!line) continue;
    const std::string event = EventOf(*line);
    if (event == "joined" || event == "ready") return line;
  }
  server.Kill();
  return UnavailableError(server.name(), " does not join: it ", server.HowItEnded(), "\n",
                          server.StderrTail());
}

}  // namespace psgd
