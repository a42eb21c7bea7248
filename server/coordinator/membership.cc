#include "server/coordinator/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/phases.h"

namespace psgd {
namespace {
CoordinatorMemberRecord ToRecord(const MemberState& member) {
  CoordinatorMemberRecord record;
  *record.mutable_key() = member.key;
  record.set_name(member.name);
  record.set_device(member.device);
  record.set_attempt(member.attempt);
  record.set_live(member.live);
  record.set_registered(member.registered);
  record.set_note(member.note);
  record.set_clock(member.clock);
  record.set_joined_after(member.joined_after);
  record.set_finished_segment(member.finished_segment);
  *record.mutable_choices() = member.choices;
  record.set_residual_norm(member.residual_norm);
  record.set_leaving(member.leaving);
  record.set_reports(member.reports);
  return record;
}

MemberState FromRecord(const CoordinatorMemberRecord& record, Time now) {
  MemberState member;
  member.key = record.key();
  member.name = record.name();
  member.device = record.device();
  member.attempt = record.attempt();
  member.live = record.live();
  member.registered = record.registered();
  member.note = record.note();
  member.clock = record.clock();
  member.joined_after = record.joined_after();
  member.finished_segment = record.finished_segment();
  member.choices = record.choices();
  member.residual_norm = record.residual_norm();
  member.leaving = record.leaving();
  member.reports = record.reports();
  member.last_heard = member.last_report = now;
  return member;
}

void CountSpeed(uint64_t samples, Time now, MemberState* member) {
  // Reports in quick succession, as at the end of a segment, say nothing about the speed.
  constexpr Duration kShortest = std::chrono::milliseconds(100);
  member->samples_since += samples;
  if (now - member->last_report < kShortest) return;
  if (member->samples_since > 0) {
    member->samples_per_second =
        static_cast<double>(member->samples_since) / Seconds(now - member->last_report);
  }
  member->samples_since = 0;
  member->last_report = now;
}

}  // namespace

void MemberState::Count(const WorkerReport& report, Time now) {
  histograms.Add(report);
  clock = std::max(clock, report.clock());
  CountSpeed(report.samples(), now, this);
  if (report.samples() > 0) {
    recent_loss = report.loss_sum() / static_cast<double>(report.samples());
    recent_accuracy = static_cast<double>(report.correct()) / static_cast<double>(report.samples());
    input_stall = InputStall(report);
  }
  if (report.has_choices()) choices = report.choices();
}

void Membership::PassTime(Time now) {
  const Duration lost = standstill_.Lost(now);
  for (auto& [worker, member] : members_) member.last_heard += lost;
}

MemberState* Membership::JoinedBy(uint64_t attempt) {
  for (auto& [worker, member] : members_) {
    if (attempt != 0 && member.live && member.attempt == attempt) return &member;
  }
  return nullptr;
}

MemberState& Membership::Join(const std::string& name, const std::string& device, Time now) {
  PassTime(now);
  uint32_t worker = 0;
  for (const auto& [taken, other] : members_) {
    if (taken != worker || !other.live) break;
    ++worker;
  }
  MemberState& member = members_[worker];
  const uint32_t incarnation = std::max(member.key.incarnation() + 1, first_incarnation_);
  member = MemberState{};
  member.key.set_worker(worker);
  member.key.set_incarnation(incarnation);
  member.name = name;
  member.device = device;
  member.live = true;
  member.last_heard = now;
  member.last_report = now;
  return member;
}

absl::StatusOr<MemberState*> Membership::Touch(const WorkerKey& key, Time now) {
  PassTime(now);
  MemberState* member = Find(key.worker());
  if (member == nullptr || key.incarnation() > member->key.incarnation()) {
    return absl::NotFoundError(absl::StrCat(
        "worker ", key.worker(), " (incarnation ", key.incarnation(),
        ") never joined this run; the server was probably restarted: start the worker again"));
  }
  if (key.incarnation() < member->key.incarnation()) {
    return absl::PermissionDeniedError(absl::StrCat(
        "worker ", key.worker(), " was replaced by incarnation ", member->key.incarnation(), " (",
        member->name, "); this older process must stop"));
  }
  if (!member->live) {
    return absl::PermissionDeniedError(absl::StrCat("worker ", key.worker(), " is out of the run: ",
                                                    member->note, "; start it again to join anew"));
  }
  member->last_heard = now;
  return member;
}

void Membership::Leave(uint32_t worker, std::string note) {
  if (MemberState* member = Find(worker)) {
    member->live = false;
    member->samples_per_second = 0;
    member->note = std::move(note);
  }
}

std::vector<uint32_t> Membership::Expired(Time now) {
  PassTime(now);
  std::vector<uint32_t> expired;
  for (const auto& [worker, member] : members_) {
    if (member.live && now - member.last_heard > lease_) expired.push_back(worker);
  }
  return expired;
}

std::vector<uint32_t> Membership::Ready() const {
  std::vector<uint32_t> ready;
  for (const auto& [worker, member] : members_) {
    if (member.live && member.registered) ready.push_back(worker);
  }
  return ready;
}

void Membership::Save(CoordinatorRecord* record) const {
  for (const auto& [worker, member] : members_) *record->add_members() = ToRecord(member);
}

void Membership::Restore(const CoordinatorRecord& record, Time now) {
  standstill_.Lost(now);
  for (const CoordinatorMemberRecord& member : record.members()) {
    members_[member.key().worker()] = FromRecord(member, now);
  }
}

const MemberState* Membership::Find(uint32_t worker) const {
  auto it = members_.find(worker);
  return it == members_.end() ? nullptr : &it->second;
}

MemberState* Membership::Find(uint32_t worker) {
  auto it = members_.find(worker);
  return it == members_.end() ? nullptr : &it->second;
}

}  // namespace psgd
