#include "server/coordinator/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "proto/control.pb.h"
#include "proto/peers.pb.h"
#include "server/control/call_guard.h"

namespace psgd {
namespace {

using testing::HasSubstr;

TEST(Access, EveryCallHasARule) {
  std::set<std::string> calls = {"/metrics"};
  for (const auto* service : {JoinRequest::descriptor()->file()->FindServiceByName("Control"),
                              ServerSays::descriptor()->file()->FindServiceByName("Peers")}) {
    ASSERT_NE(service, nullptr);
    for (int i = 0; i < service->method_count(); ++i) calls.insert(service->method(i)->name());
  }
  std::set<std::string> rules;
  for (const AccessRule& rule : AccessRules()) rules.insert(std::string(rule.call));
  EXPECT_EQ(rules, calls);
}

TEST(Access, RolesMayWhatTheTableSays) {
  for (const AccessRule& rule : AccessRules()) {
    SCOPED_TRACE(rule.call);
    EXPECT_TRUE(CheckAccess(Role::kAdmin, rule.call).ok());
    EXPECT_EQ(CheckAccess(Role::kWorker, rule.call).ok(), rule.worker);
    EXPECT_EQ(CheckAccess(Role::kObserver, rule.call).ok(), rule.observer);
    EXPECT_EQ(CheckAccess(Role::kServer, rule.call).ok(), rule.server);
  }
  for (const char* call : {"Join", "Leave", "Drain", "Weights", "SetHyper", "Checkpoint"}) {
    EXPECT_FALSE(CheckAccess(Role::kObserver, call).ok()) << call;
  }
  for (const char* call : {"Drain", "Weights", "SetHyper", "Checkpoint", "New"}) {
    EXPECT_FALSE(CheckAccess(Role::kWorker, call).ok()) << call;
  }
  // These calls are for servers only: a server gets the passes of all workers.
  for (const char* call : {"Follow", "Serve", "ShardWeights"}) {
    EXPECT_FALSE(CheckAccess(Role::kWorker, call).ok()) << call;
    EXPECT_TRUE(CheckAccess(Role::kServer, call).ok()) << call;
  }
  const absl::Status refused = CheckAccess(Role::kObserver, "Join");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("role observer may not ask for Join"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("admin or worker"));
}

TEST(Access, ReportsKeepReasonsThatThereAre) {
  WorkerReport report;
  (*report.mutable_refused())["overloaded"] = 2;
  (*report.mutable_refused())["x\ny"] = 3;
  (*report.mutable_refused())[""] = 4;
  report.set_detour("no\rUCX");
  MakeReadable(&report);
  EXPECT_FALSE(report.has_choices());
  EXPECT_EQ(report.refused().size(), 1u);
  EXPECT_EQ(report.refused().at("overloaded"), 2u);
  EXPECT_EQ(report.detour(), "no?UCX");
  auto* tensor = report.mutable_choices()->add_tensors();
  tensor->set_parameter("fc\x1b[0m");
  tensor->add_candidates()->set_codec("topk\r");
  MakeReadable(&report);
  EXPECT_EQ(report.choices().tensors(0).parameter(), "fc?[0m");
  EXPECT_EQ(report.choices().tensors(0).candidates(0).codec(), "topk?");
}

TEST(CallGuard, WithoutSecurityEverybodyMay) {
  CallGuard guard(nullptr, NullLog());
  EXPECT_TRUE(guard.CheckRole(absl::UnauthenticatedError("none"), "Drain").ok());
  EXPECT_TRUE(guard.CheckMember(Role::kWorker, WorkerKey(), "", "Leave").ok());
  EXPECT_TRUE(guard.refused().empty());
}

TEST(CallGuard, AMemberSpeaksForItselfAndAnAdminForAll) {
  auto members = std::make_shared<AllowList>();
  members->Admit(3, 9, {.curve_key = "key", .token = "token"});
  CallGuard guard(members, NullLog());
  WorkerKey key;
  key.set_worker(3);
  key.set_incarnation(9);
  EXPECT_TRUE(guard.CheckMember(Role::kWorker, key, "token", "Leave").ok());
  EXPECT_TRUE(guard.CheckMember(Role::kAdmin, key, "", "Leave").ok());
  EXPECT_TRUE(guard.refused().empty());
  EXPECT_FALSE(guard.CheckMember(Role::kWorker, key, "other", "Leave").ok());
  EXPECT_FALSE(guard.CheckMember(Role::kWorker, key, "", "Leave").ok());
  key.set_incarnation(8);
  EXPECT_FALSE(guard.CheckMember(Role::kWorker, key, "token", "Leave").ok());
  EXPECT_FALSE(guard.CheckRole(Role::kObserver, "Leave").ok());
  EXPECT_FALSE(guard.CheckRole(absl::UnauthenticatedError("no certificate"), "Status").ok());
  EXPECT_EQ(guard.refused(), (std::map<std::string, uint64_t>{{"not_itself", 3}, {"role", 2}}));
}

}  // namespace
}  // namespace psgd
