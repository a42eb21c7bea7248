// How far a shard is with each worker's pushes: told from its members, or from its journal alone.
#pragma once

#include <cstdint>
#include <map>

#include "proto/journal.pb.h"

namespace psgd {

using Members = std::map<uint32_t, MemberRecord>;  // by worker
using MemberClocks = google::protobuf::RepeatedPtrField<MemberClock>;

MemberClocks ClocksOf(const Members& members);

// A new worker, or a new incarnation of one, which takes part in no clock yet.
MemberRecord& AdmitMember(const WorkerKey& key, Members* members);
// The live workers of the segment that did not run before take part from its first clock on.
void BeginSegmentFor(const Segment& segment, Members* members);
// The worker takes part no more. An earlier or later incarnation stays.
void RemoveMember(const WorkerKey& key, Members* members);

// The members of a shard after each step of its journal, without the shard's weights.
class JournalMembers {
 public:
  // `image`: the shard before the steps.
  explicit JournalMembers(const ShardRecord& image);
  void Add(const JournalHead& step);
  MemberClocks Clocks() const { return ClocksOf(members_); }

 private:
  void Push(const DataHeader& message);

  Members members_;
};

}  // namespace psgd
