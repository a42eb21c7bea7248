// What ps-server --json says on its standard output.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "experiment/launch/child_process.h"

namespace psgd {

// "ready" (the server leads the run), "joined" or "taking_over". Empty: the line is no event.
std::string EventOf(const std::string& line);

// Waits until a ps-server --join has joined or leads the run, and returns the line that says so;
// nullopt: `gives_up` said so. UNAVAILABLE: it ended or was too slow, and is killed; has its last
// words.
absl::StatusOr<std::optional<std::string>> AwaitJoined(ChildProcess& server, Duration deadline,
                                                       const std::function<bool()>& gives_up);

}  // namespace psgd
