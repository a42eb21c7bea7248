#include "worker/member_security.h"

#include "worker/control_client.h"

namespace psgd {

std::shared_ptr<const TransportSecurity> MemberSecurity(
    const std::shared_ptr<const Credentials>& credentials, const std::string& server,
    const CurveKeys& curve, const JoinReply& joined) {
  if (credentials == nullptr) return nullptr;
  auto security = std::make_shared<TransportSecurity>();
  security->credentials = credentials;
  security->curve = curve;
  security->server_curve_key = joined.curve_key();
  security->token = joined.token();
  security->server_name = ServerHost(server);
  return security;
}

}  // namespace psgd
