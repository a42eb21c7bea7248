// What a secured run adds to a server: passes for its members.
#include "absl/strings/str_cat.h"
#include "common/names.h"
#include "net/transport_security.h"
#include "server/control/parameter_server.h"
#include "server/coordinator/access.h"

namespace psgd {

std::shared_ptr<const TransportSecurity> ParameterServer::DataSecurity() const {
  if (members_ == nullptr) return nullptr;
  auto security = std::make_shared<TransportSecurity>();
  security->credentials = options_.credentials;
  security->curve = curve_;
  security->allowed = members_;
  return security;
}

absl::Status ParameterServer::CheckJoin(const JoinRequest& request) const {
  PSGD_RETURN_IF_ERROR(CheckPeerName("the worker's name", request.name()));
  if (members_ == nullptr || IsCurveKey(request.curve_key())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the worker sent no public key, which a secured run asks for; install the same version of "
      "psgd "
      "on both sides");
}

void ParameterServer::HandOutPasses(const JoinRequest& request, JoinReply* reply) {
  if (members_ == nullptr) return;
  const Passes passes{.curve_key = request.curve_key(), .token = MakeToken()};
  members_->Admit(reply->key().worker(), reply->key().incarnation(), passes);
  CoordinatorRecord::Pass& kept = passes_[reply->key().worker()];
  *kept.mutable_key() = reply->key();
  kept.set_curve_key(passes.curve_key);
  kept.set_token(passes.token);
  // Before the worker has them itself.
  for (const auto& [server, host] : hosts_) host->Admit(kept);
  reply->set_token(passes.token);
  reply->set_curve_key(curve_.public_key);
}

void ParameterServer::SavePasses(CoordinatorRecord* record) const {
  if (members_ == nullptr) return;
  record->set_curve_public(curve_.public_key);
  record->set_curve_secret(curve_.secret_key);
  for (const auto& [worker, pass] : passes_) *record->add_passes() = pass;
}

void ParameterServer::RestorePasses(const CoordinatorRecord& record) {
  if (members_ == nullptr) return;
  curve_ = {record.curve_public(), record.curve_secret()};
  for (const CoordinatorRecord::Pass& pass : record.passes()) {
    passes_[pass.key().worker()] = pass;
    members_->Admit(pass.key().worker(), pass.key().incarnation(),
                    {.curve_key = pass.curve_key(), .token = pass.token()});
  }
}

}  // namespace psgd
