// What a member of a secured run shows on the data plane.
#pragma once

#include <memory>
#include <string>

#include "net/transport_security.h"
#include "proto/control.pb.h"

namespace psgd {

// `server`: the address at which the control plane was reached. `curve`: this member's keys.
// Returns null if `credentials` is null: the server then asks for nothing.
std::shared_ptr<const TransportSecurity> MemberSecurity(
    const std::shared_ptr<const Credentials>& credentials, const std::string& server,
    const CurveKeys& curve, const JoinReply& joined);

}  // namespace psgd
