#include "server/shard/member_clocks.h"

namespace psgd {

MemberClocks ClocksOf(const Members& members) {
  MemberClocks clocks;
  for (const auto& [worker, member] : members) {
    MemberClock* const clock = clocks.Add();
    clock->mutable_key()->set_worker(worker);
    clock->mutable_key()->set_incarnation(member.incarnation());
    clock->set_clock(member.arrived_clock());
    clock->set_pushed(member.pushed());
  }
  return clocks;
}

MemberRecord& AdmitMember(const WorkerKey& key, Members* members) {
  MemberRecord& member = (*members)[key.worker()];
  member.Clear();
  member.set_worker(key.worker());
  member.set_incarnation(key.incarnation());
  member.set_live(true);
  return member;
}

void BeginSegmentFor(const Segment& segment, Members* members) {
  for (const uint32_t worker : segment.workers()) {
    const auto it = members->find(worker);
    if (it == members->end() || !it->second.live() || it->second.running()) continue;
    MemberRecord& member = it->second;
    member.set_running(true);
    member.set_first_clock(segment.first_clock());
    member.set_clock(segment.first_clock());
    member.set_arrived_clock(segment.first_clock());
  }
}

void RemoveMember(const WorkerKey& key, Members* members) {
  const auto it = members->find(key.worker());
  if (it == members->end() || it->second.incarnation() != key.incarnation()) return;
  it->second.set_live(false);
  it->second.set_running(false);
}

JournalMembers::JournalMembers(const ShardRecord& image) {
  for (const MemberRecord& member : image.members()) members_[member.worker()] = member;
}

void JournalMembers::Add(const JournalHead& step) {
  const ShardOrder& order = step.order();
  if (order.has_admit()) {
    AdmitMember(order.admit(), &members_);
  } else if (order.has_remove()) {
    RemoveMember(order.remove(), &members_);
  } else if (order.has_begin()) {
    BeginSegmentFor(order.begin(), &members_);
  } else if (step.message().has_push()) {
    Push(step.message());
  }
}

void JournalMembers::Push(const DataHeader& message) {
  const auto member = members_.find(message.worker());
  if (member == members_.end() || member->second.incarnation() != message.incarnation()) return;
  member->second.set_pushed(true);
  const psgd::Push& push = message.push();
  const bool due = member->second.running() && push.clock() == member->second.arrived_clock() + 1;
  if (due && push.end_of_clock()) member->second.set_arrived_clock(push.clock());
}

}  // namespace psgd
