// The server's state as Prometheus text.
#pragma once

#include <string>

#include "proto/control.pb.h"

namespace psgd {

std::string RenderPrometheus(const StatusReply& status);

}  // namespace psgd
