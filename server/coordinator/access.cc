#include "server/coordinator/access.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/names.h"
#include "proto/data.pb.h"

namespace psgd {
namespace {

constexpr std::array<AccessRule, 17> kRules = {{
    {.call = "Join", .worker = true},
    {.call = "Register", .worker = true},
    {.call = "GiveWeights", .worker = true},
    {.call = "NextSegment", .worker = true},
    {.call = "Evaluated", .worker = true},
    {.call = "Heartbeat", .worker = true},
    {.call = "Leave", .worker = true},
    {.call = "Status", .worker = true, .observer = true},
    {.call = "/metrics", .worker = true, .observer = true},
    {.call = "Weights"},
    {.call = "Checkpoint"},
    {.call = "Drain"},
    {.call = "SetHyper"},
    {.call = "Rebalance"},
    {.call = "Follow", .server = true},
    {.call = "Serve", .server = true},
    {.call = "ShardWeights", .server = true},
}};

}  // namespace

std::span<const AccessRule> AccessRules() { return kRules; }

absl::Status CheckAccess(Role role, absl::string_view call) {
  std::vector<Role> may = {Role::kAdmin};
  for (const AccessRule& rule : kRules) {
    if (rule.call != call) continue;
    if (rule.worker) may.push_back(Role::kWorker);
    if (rule.observer) may.push_back(Role::kObserver);
    if (rule.server) may.push_back(Role::kServer);
  }
  if (std::ranges::find(may, role) != may.end()) return absl::OkStatus();
  const auto name = [](std::string* out, Role one) { absl::StrAppend(out, RoleName(one)); };
  return absl::PermissionDeniedError(absl::StrCat(
      "a certificate of role ", RoleName(role), " may not ask for ", call,
      "; it takes one of role ", absl::StrJoin(may, " or ", name), " (--tls-cert, --tls-key)"));
}

void MakeReadable(WorkerReport* report) {
  report->set_detour(Readable(report->detour()));
  for (std::string& note : *report->mutable_notes()) note = Readable(note);
  const auto refused = report->refused();
  report->clear_refused();
  for (const auto& [reason, count] : refused) {
    Refusal::Reason known;
    if (Refusal::Reason_Parse(absl::AsciiStrToUpper(reason), &known)) {
      (*report->mutable_refused())[absl::AsciiStrToLower(reason)] += count;
    }
  }
  if (!report->has_choices()) return;
  for (CodecChoices::Tensor& tensor : *report->mutable_choices()->mutable_tensors()) {
    tensor.set_parameter(Readable(tensor.parameter()));
    for (CodecChoices::Candidate& candidate : *tensor.mutable_candidates()) {
      candidate.set_codec(Readable(candidate.codec()));
    }
  }
}

}  // namespace psgd
