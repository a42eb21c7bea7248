#include "server/coordinator/membership.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizers/diverged.h"
#include "proto/phases.h"

namespace psgd {
namespace {

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

// A single report may have few steps, so older ones count as well, and fade.
void CountSteps(const WorkerReport& report, CoordinatorMemberRecord* member) {
  constexpr double kOfLate = 20;  // seconds
  const double steps = member->recent_steps() + static_cast<double>(report.steps());
  const double busy = member->recent_busy() + report.seconds_data() + report.seconds_compute();
  const double kept = busy < kOfLate ? 1 : 0.5;
  member->set_recent_steps(kept * steps);
  member->set_recent_busy(kept * busy);
}

}  // namespace

void MemberState::Count(const WorkerReport& report, Time now) {
  histograms.Add(report);
  record.set_clock(std::max(record.clock(), report.clock()));
  detour = report.detour();
  CountSpeed(report.samples(), now, this);
  if (report.samples() > 0) {
    recent_loss = report.loss_sum() / static_cast<double>(report.samples());
    recent_accuracy = static_cast<double>(report.correct()) / static_cast<double>(report.samples());
    input_stall = InputStall(report);
    CountSteps(report, &record);
  }
  if (report.has_choices()) *record.mutable_choices() = report.choices();
  if (report.has_unpushed()) *record.mutable_unpushed() = report.unpushed();
}

void Membership::PassTime(Time now) {
  const Duration lost = standstill_.Lost(now);
  if (lost == Duration::zero()) return;
  look_again_ += lost;
  for (auto& [worker, member] : members_) member.last_heard += lost;
}

MemberState* Membership::JoinedBy(uint64_t attempt) {
  for (auto& [worker, member] : members_) {
    if (attempt != 0 && member.record.live() && member.record.attempt() == attempt) return &member;
  }
  return nullptr;
}

uint32_t Membership::LowestFree() const {
  uint32_t worker = 0;
  for (const auto& [taken, other] : members_) {
    if (taken != worker || !other.record.live()) break;
    ++worker;
  }
  return worker;
}

MemberState& Membership::Join(const std::string& name, const std::string& device, Time now,
                              std::optional<uint32_t> wanted) {
  PassTime(now);
  const MemberState* const there = wanted ? Find(*wanted) : nullptr;
  const bool taken = there != nullptr && there->record.live();
  const uint32_t worker = wanted && !taken ? *wanted : LowestFree();
  MemberState& member = members_[worker];
  const uint32_t incarnation = std::max(member.record.key().incarnation() + 1, first_incarnation_);
  member = MemberState{};
  member.record.mutable_key()->set_worker(worker);
  member.record.mutable_key()->set_incarnation(incarnation);
  member.record.set_name(name);
  member.record.set_device(device);
  member.record.set_live(true);
  member.last_heard = now;
  member.last_report = now;
  return member;
}

absl::StatusOr<MemberState*> Membership::Touch(const WorkerKey& key, Time now) {
  PassTime(now);
  MemberState* member = Find(key.worker());
  if (member == nullptr || key.incarnation() > member->record.key().incarnation()) {
    return absl::PermissionDeniedError(absl::StrCat(
        "worker ", key.worker(), " (incarnation ", key.incarnation(),
        ") never joined this run; the server was probably restarted: start the worker again"));
  }
  if (key.incarnation() < member->record.key().incarnation()) {
    return absl::PermissionDeniedError(
        absl::StrCat("worker ", key.worker(), " was replaced by incarnation ",
                     member->record.key().incarnation(), " (", member->record.name(),
                     "); this older process must stop. If two workers have the same --name, give "
                     "each its own"));
  }
  if (!member->record.live()) {
    return absl::PermissionDeniedError(absl::StrCat("worker ", key.worker(),
                                                    " is out of the run: ", member->record.note(),
                                                    "; start it again to join anew"));
  }
  member->last_heard = now;
  return member;
}

void Membership::Leave(uint32_t worker, std::string note) {
  if (MemberState* member = Find(worker)) {
    member->record.set_live(false);
    member->samples_per_second = 0;
    member->record.set_note(std::move(note));
  }
}

std::vector<uint32_t> Membership::Expired(Time now) {
  PassTime(now);
  if (now <= look_again_) return {};
  std::vector<uint32_t> expired;
  look_again_ = now + lease_;
  for (const auto& [worker, member] : members_) {
    if (!member.record.live()) continue;
    look_again_ = std::min(look_again_, member.last_heard + lease_);
    if (now - member.last_heard > lease_) expired.push_back(worker);
  }
  return expired;
}

const MemberState* Membership::LiveNamed(const std::string& name) const {
  for (const auto& [worker, member] : members_) {
    if (member.record.live() && member.record.name() == name) return &member;
  }
  return nullptr;
}

const MemberState* Membership::FindLive(const WorkerKey& key) const {
  const MemberState* const member = Find(key.worker());
  const bool found = member != nullptr && member->record.live() &&
                     member->record.key().incarnation() == key.incarnation();
  return found ? member : nullptr;
}

std::vector<uint32_t> Membership::Ready() const {
  std::vector<uint32_t> ready;
  for (const auto& [worker, member] : members_) {
    if (member.record.live() && member.record.registered()) ready.push_back(worker);
  }
  return ready;
}

uint64_t Membership::FinishedByAll() const {
  uint64_t all = UINT64_MAX;
  for (const uint32_t worker : Ready()) {
    all = std::min(all, Find(worker)->record.finished_segment());
  }
  return all;
}

uint64_t Membership::MostFinished() const {
  uint64_t most = 0;
  for (const uint32_t worker : Ready()) {
    most = std::max(most, Find(worker)->record.finished_segment());
  }
  return most;
}

std::vector<uint32_t> Membership::StepsFor(const std::vector<uint32_t>& workers,
                                           uint32_t most) const {
  double fastest = 0;
  for (const uint32_t worker : workers) {
    fastest = std::max(fastest, Find(worker)->StepsPerSecond());
  }
  std::vector<uint32_t> steps(workers.size(), most);
  for (size_t i = 0; i < workers.size(); ++i) {
    const double speed = Find(workers[i])->StepsPerSecond();
    if (speed == 0) continue;  // it has computed nothing yet
    steps[i] = std::max(1u, static_cast<uint32_t>(std::lround(most * speed / fastest)));
  }
  return steps;
}

double Membership::Residual() const {
  double squares = 0;
  for (const auto& [worker, member] : members_) {
    squares += member.record.residual_norm() * member.record.residual_norm();
  }
  return std::sqrt(squares);
}

int Membership::live() const {
  return static_cast<int>(std::ranges::count_if(
      members_, [](const auto& member) { return member.second.record.live(); }));
}

bool Membership::LastDiverged() const {
  std::optional<uint64_t> furthest;
  bool diverged = false;
  for (const auto& [worker, member] : members_) {
    const CoordinatorMemberRecord& record = member.record;
    if (furthest && record.clock() < *furthest) continue;
    const bool left = !record.live() && SaysDiverged(record.note());
    diverged = left && (diverged || furthest != record.clock());
    furthest = record.clock();
  }
  return diverged;
}

void Membership::Show(Time now, StatusReply* status) const {
  double loss = 0, accuracy = 0, speed = 0, last_loss = 0, last_accuracy = 0;
  int reporting = 0;
  Time last_report{};
  bool first_found = false;
  for (const auto& [worker, member] : members_) {
    WorkerStatus* out = status->add_workers();
    *out->mutable_key() = member.record.key();
    out->set_name(member.record.name());
    out->set_device(member.record.device());
    out->set_live(member.record.live());
    out->set_clock(member.record.clock());
    out->set_samples_per_second(member.samples_per_second);
    out->set_seconds_since_heard(Seconds(now - member.last_heard));
    out->set_note(member.record.note());
    out->set_input_stall(member.input_stall);
    out->set_residual_norm(member.record.residual_norm());
    out->set_leaving(member.record.leaving());
    out->set_detour(member.detour);
    member.histograms.CopyTo(out);
    // Shows the choices of one worker, always the same one: not of whichever worker was faster.
    const bool chose = member.record.choices().tensors_size() > 0;
    if (!first_found && (member.record.live() || chose)) {
      first_found = true;
      if (chose) *status->mutable_choices() = member.record.choices();
    }
    const bool has_trained = member.recent_loss != 0 || member.recent_accuracy != 0;
    if (has_trained && member.last_report >= last_report) {
      last_report = member.last_report;
      last_loss = member.recent_loss;
      last_accuracy = member.recent_accuracy;
    }
    if (!member.record.live() || member.samples_per_second == 0) continue;
    speed += member.samples_per_second;
    loss += member.recent_loss;
    accuracy += member.recent_accuracy;
    ++reporting;
  }
  status->set_samples_per_second(speed);
  // At the run's end no worker is left: then both are those of the last report.
  status->set_train_loss(reporting > 0 ? loss / reporting : last_loss);
  status->set_train_accuracy(reporting > 0 ? accuracy / reporting : last_accuracy);
}

void Membership::Save(CoordinatorRecord* record) const {
  bool has_choices = false;
  for (const auto& [worker, member] : members_) {
    CoordinatorMemberRecord& saved = *record->add_members() = member.record;
    // Those of one worker are shown, and of thousands of tensors they are large.
    if (has_choices) saved.clear_choices();
    has_choices = has_choices || saved.choices().tensors_size() > 0;
  }
}

void Membership::Restore(const CoordinatorRecord& record, Time now) {
  standstill_.Lost(now);
  for (const CoordinatorMemberRecord& saved : record.members()) {
    MemberState& member = members_[saved.key().worker()];
    member.record = saved;
    member.last_heard = member.last_report = now;
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
