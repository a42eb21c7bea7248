#include "server/cluster/copy_assigner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

constexpr size_t kCatchingUp = 4;     // copies that catch up at once
constexpr int kTicksPerPatience = 4;  // a longer time between two ticks is a standstill
// The links of a process that dies break at once. One that lives connects again within this part of
// the patience, and within this time.
constexpr int kPatienceToRejoin = 4;
constexpr Duration kTimeToRejoin = std::chrono::milliseconds(200);
constexpr int kGoneKept = 8;  // servers that are gone, for people to see

}  // namespace

CopyAssigner::CopyAssigner(CopyAssignerOptions options, RunRecord record, Time now)
    : options_(options),
      record_(std::move(record)),
      bytes_(static_cast<size_t>(record_.shards_size())),
      heard_(static_cast<size_t>(record_.shards_size())),
      troubled_since_(static_cast<size_t>(record_.shards_size())),
      lacks_end_(static_cast<size_t>(record_.shards_size())),
      untold_grants_(static_cast<size_t>(record_.shards_size())),
      standstill_(options_.patience / kTicksPerPatience),
      replaced_(options_.replaced),
      targets_(LeadersOf(record_)) {
  record_.clear_coordinator();
  for (const RunServer& server : record_.servers()) peers_[server.server()].heard = now;
}

// --- Servers
// ------------------------------------------------------------------------------------------

absl::StatusOr<CopyAssigner::Peer*> CopyAssigner::Welcome(uint64_t link, const ServerState& state,
                                                          News* news) {
  RunServer self = state.self();
  if (!state.run_id().empty() && state.run_id() != record_.run_id()) {
    return FailedPreconditionError("the run directory of that server is of another run (",
                                   state.run_id(), "; this is ", record_.run_id(),
                                   "): give it another --run-dir");
  }
  RunServer* known = nullptr;
  for (RunServer& server : *record_.mutable_servers()) {
    if (server.identity() == self.identity()) known = &server;
  }
  if (known == nullptr) {
    if (record_.over()) return absl::FailedPreconditionError("the run is over");
    known = record_.add_servers();
    known->set_server(record_.next_server());
    record_.set_next_server(known->server() + 1);
    news->push_back(absl::StrCat("server ", known->server(), " (", self.name(), ") joined"));
  }
  self.set_server(known->server());
  *known = self;
  // The server gets its assignment once this change is stored: a replaced leader that does not know
  // it yet must not make other servers drop their copies.
  ++changes_;
  Peer& peer = peers_[known->server()];
  if (known->server() == replaced_) replaced_ = 0;
  if (peer.link != 0) Away(known->server(), &peer);
  peer = {};
  peer.link = link;
  peer.came = changes_;
  return &peer;
}

absl::Status CopyAssigner::OnState(uint64_t link, const ServerState& state, Time now, News* news) {
  LookAtClock(now);
  const auto at =
      std::ranges::find_if(peers_, [&](const auto& peer) { return peer.second.link == link; });
  Peer* peer = at == peers_.end() ? nullptr : &at->second;
  if (peer == nullptr) {
    PSGD_ASSIGN_OR_RETURN(peer, Welcome(link, state, news));
  }
  peer->heard = now;
  peer->state = state;
  peer->places.assign(bytes_.size(), 0);
  for (int place = state.copies_size(); place > 0; --place) {
    const uint32_t shard = state.copies(place - 1).shard();
    if (shard < peer->places.size()) peer->places[shard] = place;
  }
  return absl::OkStatus();
}

void CopyAssigner::OnLinkGone(uint64_t link, Time now) {
  LookAtClock(now);
  for (auto& [server, peer] : peers_) {
    if (peer.link != link) continue;
    Away(server, &peer);
    // The others gave up their links while this server stood still.
    if (!standstill_.WasRecently(options_.patience, now)) peer.broke = now;
  }
}

void CopyAssigner::Away(uint32_t server, Peer* peer) {
  peer->link = 0;
  peer->may_lead_from.clear();
  peer->assigned.clear();
  TakeBackGrants(server);
}

// First for each input: what comes first after a standstill must not take the others for silent.
void CopyAssigner::LookAtClock(Time now) {
  const Duration lost = standstill_.Lost(now);
  if (lost == Duration(0)) return;
  for (auto& [server, peer] : peers_) {
    peer.heard += lost;
    if (peer.broke) *peer.broke += lost;
  }
}

void CopyAssigner::Tick(Time now) {
  LookAtClock(now);
  // A silent server with an open link is frozen, or cut off in one direction.
  for (auto& [server, peer] : peers_) {
    if (peer.link != 0 && IsGone(server, now)) Away(server, &peer);
  }
  NoteGone(now);
}

void CopyAssigner::NoteGone(Time now) {
  auto* const servers = record_.mutable_servers();
  for (RunServer& server : *servers) {
    if (server.gone() || server.server() == record_.leader() || IsHere(server.server()) ||
        !IsGone(server.server(), now) || HoldsAnyCopy(record_, server.server()))
      continue;
    server.set_gone(true);
    ++changes_;
  }
  int surplus = static_cast<int>(std::ranges::count_if(*servers, &RunServer::gone)) - kGoneKept;
  for (auto at = servers->begin(); surplus > 0;) {
    if (!at->gone()) {
      ++at;
      continue;
    }
    peers_.erase(at->server());
    at = servers->erase(at);
    ++changes_;
    --surplus;
  }
}

uint64_t CopyAssigner::LinkTo(uint32_t server) const {
  const auto peer = peers_.find(server);
  return peer == peers_.end() ? 0 : peer->second.link;
}

// The server had time enough to connect, or to show that it lives.
bool CopyAssigner::IsGone(uint32_t server, Time now) const {
  const auto peer = peers_.find(server);
  return peer != peers_.end() && now >= peer->second.heard + options_.patience;
}

bool CopyAssigner::StaysAway(uint32_t server, Time now) const {
  if (IsGone(server, now)) return true;
  const auto peer = peers_.find(server);
  return peer != peers_.end() && peer->second.link == 0 && peer->second.broke &&
         now >= *peer->second.broke +
                    std::max<Duration>(options_.patience / kPatienceToRejoin, kTimeToRejoin);
}

bool CopyAssigner::IsLost(uint32_t server, Time now) const {
  return options_.lost_after && IsGone(server, now) &&
         now >= peers_.at(server).heard + *options_.lost_after;
}

const CopyState* CopyAssigner::Find(uint32_t server, uint32_t shard) const {
  const CopyState* const copy = FindReport(server, shard);
  return copy == nullptr || copy->empty() ? nullptr : copy;
}

const CopyState* CopyAssigner::FindReport(uint32_t server, uint32_t shard) const {
  if (!IsHere(server)) return nullptr;
  const Peer& peer = peers_.at(server);
  const int place = shard < peer.places.size() ? peer.places[shard] : 0;
  return place == 0 ? nullptr : &peer.state.copies(place - 1);
}

// The copy leads or follows since the server's process began: nothing that the process wrote is
// lost.
bool CopyAssigner::HasBegun(uint32_t server, uint32_t shard) const {
  const CopyState* const copy = Find(server, shard);
  return copy != nullptr && copy->epoch() > 0;
}

bool CopyAssigner::IsLive(uint32_t server, uint32_t shard) const {
  return HasBegun(server, shard) ||
         (Find(server, shard) != nullptr && peers_.at(server).may_lead_from.contains(shard));
}

const CopyState* CopyAssigner::FindLeading(const ShardCopies& copies, uint32_t shard) const {
  const CopyState* const copy = Find(copies.leader(), shard);
  const bool leads = copy != nullptr && copy->epoch() == copies.epoch() && copy->leads();
  return leads ? copy : nullptr;
}

uint32_t CopyAssigner::MovesTo(uint32_t shard) const {
  const uint32_t target = targets_[shard];
  if (target == record_.shards(static_cast<int>(shard)).leader() || !IsHere(target)) return 0;
  const CopyState* const copy = FindReport(target, shard);
  return copy == nullptr || copy->trouble().empty() ? target : 0;
}

std::vector<uint64_t> CopyAssigner::links() const {
  std::vector<uint64_t> links;
  for (const auto& [server, peer] : peers_) {
    if (peer.link != 0 && peer.link != kOwnLink) links.push_back(peer.link);
  }
  return links;
}

std::set<uint32_t> CopyAssigner::Present() const {
  std::set<uint32_t> present;
  for (const auto& [server, peer] : peers_) {
    if (peer.link != 0 && !peer.state.leaving()) present.insert(server);
  }
  return present;
}

void CopyAssigner::AddStatus(const RunRecord& stored, Time now, StatusReply* status) const {
  for (const RunServer& server : stored.servers()) {
    ServerStatus* const told = status->add_servers();
    told->set_server(server.server());
    told->set_name(server.name());
    told->set_connected(IsHere(server.server()));
    told->set_leads(server.server() == stored.leader());
    told->set_beside_worker(server.beside_worker());
    told->set_link(server.link());
    const auto peer = peers_.find(server.server());
    if (peer == peers_.end()) continue;
    told->set_leaving(peer->second.state.leaving());
    told->set_seconds_since_heard(Seconds(now - peer->second.heard));
  }
  for (int s = 0; s < stored.shards_size(); ++s) {
    const ShardCopies& shard = stored.shards(s);
    ShardStatus* const told = status->add_shards();
    if (const CopyState* const copy = Find(shard.leader(), static_cast<uint32_t>(s)))
      *told = copy->status();
    told->set_shard(static_cast<uint32_t>(s));
    told->set_server(shard.leader());
    told->set_endpoint(shard.endpoint());
    *told->mutable_in_sync() = shard.in_sync();
    *told->mutable_copies() = shard.copies();
  }
}

// --- Copies
// ------------------------------------------------------------------------------------------

void CopyAssigner::SetPlacement(const Placement& placement) {
  std::ranges::fill(bytes_, 0);
  for (const SliceSpec& slice : placement.slices())
    bytes_[slice.shard()] += uint64_t{slice.count()} * sizeof(float);
}

void CopyAssigner::BeginTraining() {
  record_.set_has_plan(true);
  ++changes_;
}

void CopyAssigner::EndRun() {
  record_.set_over(true);
  ++changes_;
}

absl::Status CopyAssigner::Settle(uint32_t s, Time now, News* news) {
  LookAtClock(now);
  if (record_.over()) return absl::OkStatus();  // servers end one by one
  HearReports(s, news);
  // A restarted copy may have lost its last writes.
  std::erase_if(untold_grants_[s],
                [&](const auto& grant) { return IsHere(grant.first) && !IsLive(grant.first, s); });
  if (!record_.has_plan()) return absl::OkStatus();
  const absl::Status settled = SettleLeader(s, now, news);
  SettleFollowers(s, now);
  return settled;
}

void CopyAssigner::HearReports(uint32_t s, News* news) {
  ShardCopies* const shard = record_.mutable_shards(static_cast<int>(s));
  const CopyState* const copy = FindLeading(*shard, s);
  if (copy == nullptr) return;
  if (!copy->endpoint().empty() && copy->endpoint() != shard->endpoint()) {
    shard->set_endpoint(copy->endpoint());
    ++changes_;
  }
  shard->set_entries(std::max(shard->entries(), copy->entries()));
  heard_[s] = copy->report();
  for (const uint32_t server : copy->silent()) {
    if (!RemoveInSync(server, shard)) continue;
    untold_grants_[s][server] = IdOf(*shard, server);
    ++changes_;
    news->push_back(absl::StrCat("shard ", s, " goes on without its copy on server ", server,
                                 ", which does not answer"));
  }
  for (const CopyState::CaughtUp& caught_up : copy->caught_up()) {
    // The copy before it may have been meant.
    if (caught_up.copy() != IdOf(*shard, caught_up.server())) continue;
    if (AddInSync(caught_up.server(), shard)) ++changes_;
  }
}

void CopyAssigner::TakeBackGrants(uint32_t server) {
  for (size_t s = 0; s < untold_grants_.size(); ++s) {
    ShardCopies* const shard = record_.mutable_shards(static_cast<int>(s));
    if (shard->leader() != server) continue;
    for (const auto& [silent, copy] : std::exchange(untold_grants_[s], {})) {
      if (!HoldsCopy(*shard, silent) || IdOf(*shard, silent) != copy) continue;
      if (AddInSync(silent, shard)) ++changes_;
    }
  }
}

absl::Status CopyAssigner::SettleLeader(uint32_t s, Time now, News* news) {
  ShardCopies* const shard = record_.mutable_shards(static_cast<int>(s));
  const uint32_t leader = shard->leader();
  if (IsLive(leader, s)) {
    lacks_end_[s].clear();
    const uint32_t other = InsteadOfTroubled(*shard, s, now);
    if (other != 0) Promote(s, other, news);
    return absl::OkStatus();
  }
  uint32_t live = 0;  // another server in sync, with a live copy
  bool may_come = false;
  for (const uint32_t server : shard->in_sync()) {
    const CopyState* const copy = Find(server, s);
    may_come = may_come || (copy != nullptr && copy->unread());
    if (server == leader) continue;
    if (IsLive(server, s)) live = server;
    may_come = may_come || (!IsHere(server) && !IsGone(server, now));
  }
  const bool leader_may_come = !IsHere(leader) && !IsGone(leader, now);
  // A live copy need not wait again for the server that was replaced, nor long for one whose link
  // broke. A copy from a disk must: that server may live, and have more.
  const bool stays_away = leader == replaced_ || StaysAway(leader, now);
  if (leader_may_come && (live == 0 || !stays_away)) return absl::OkStatus();
  if (live != 0) {
    Promote(s, live, news);
    return absl::OkStatus();
  }
  // A server whose copy was live all the time may still come. It has what a machine that lost power
  // may have lost.
  if (may_come) return absl::OkStatus();
  if (const uint32_t from_disk = LongestFromDisk(s); from_disk != 0) {
    const absl::Status whole = CheckEnd(s, from_disk);
    if (whole.ok() && ReadsMore(from_disk)) return absl::OkStatus();
    // A copy in sync on another server has what this disk lost.
    const bool another_has_it =
        std::ranges::any_of(shard->in_sync(), [&](uint32_t server) { return !IsHere(server); });
    if (!whole.ok() && another_has_it) {
      if (std::exchange(lacks_end_[s], std::string(whole.message())).empty())
        news->push_back(absl::StrCat("another copy of shard ", s, " must come: ", whole.message()));
      return absl::OkStatus();
    }
    PSGD_RETURN_IF_ERROR(whole);
    if (from_disk == leader) {
      shard->set_epoch(shard->epoch() + 1);
      BeginEpoch(s);
    } else {
      Promote(s, from_disk, news);
    }
    peers_.at(from_disk).may_lead_from[s] = shard->epoch();
  } else if (std::ranges::all_of(shard->in_sync(), [&](uint32_t server) {
               return IsHere(server) || IsLost(server, now);
             })) {
    return absl::DataLossError(
        IsHere(leader) ? absl::StrCat("server ", leader, " came back without shard ", s,
                                      ", of which nobody else has a copy")
                       : absl::StrCat("server ", leader, " has not answered for longer than ",
                                      "cluster.deadline, and shard ", s,
                                      " was in memory alone (durability.acknowledge: memory)"));
  }
  return absl::OkStatus();
}

bool CopyAssigner::ReadsMore(uint32_t server) const {
  return std::ranges::any_of(peers_.at(server).state.copies(),
                             [](const CopyState& copy) { return copy.unread(); });
}

uint32_t CopyAssigner::LongestFromDisk(uint32_t s) const {
  const ShardCopies& shard = record_.shards(static_cast<int>(s));
  uint32_t longest = 0;
  for (const uint32_t server : shard.in_sync()) {
    const CopyState* const copy = Find(server, s);
    if (copy == nullptr || copy->unread()) continue;
    const uint64_t most = longest == 0 ? 0 : Find(longest, s)->entries();
    if (longest == 0 || copy->entries() > most ||
        (copy->entries() == most && server == shard.leader())) {
      longest = server;
    }
  }
  return longest;
}

absl::Status CopyAssigner::CheckEnd(uint32_t s, uint32_t server) const {
  const ShardCopies& shard = record_.shards(static_cast<int>(s));
  // The leader may have had entries that no other copy got, and that nobody acknowledged.
  if (server == shard.leader())
    PSGD_RETURN_IF_ERROR(CheckJournalEnd(shard, s, Find(server, s)->entries()));
  std::vector<ReadJournal> journals;
  for (uint32_t other = 0; other < static_cast<uint32_t>(record_.shards_size()); ++other) {
    if (HasBegun(record_.shards(static_cast<int>(other)).leader(), other)) continue;
    const uint32_t longest = LongestFromDisk(other);
    if (longest != 0 && !HasBegun(longest, other))
      journals.push_back({other, &Find(longest, other)->clocks()});
  }
  return CompareJournal(journals, s, options_.most_ahead);
}

uint32_t CopyAssigner::InsteadOfTroubled(const ShardCopies& shard, uint32_t s, Time now) {
  std::optional<Time>& since = troubled_since_[s];
  if (Find(shard.leader(), s)->trouble().empty()) {
    since.reset();
    return 0;
  }
  if (!since) since = now;
  if (now < *since + options_.patience) return 0;
  for (const uint32_t server : shard.in_sync()) {
    if (server != shard.leader() && IsLive(server, s) && Find(server, s)->trouble().empty())
      return server;
  }
  return 0;
}

void CopyAssigner::Promote(uint32_t s, uint32_t server, News* news) {
  ShardCopies* const shard = record_.mutable_shards(static_cast<int>(s));
  const uint32_t before = shard->leader();
  Apply({CopyChange::kPromote, s, server}, &record_);
  RemoveInSync(before, shard);
  BeginEpoch(s);
  news->push_back(
      absl::StrCat("server ", server, " leads shard ", s, " in place of server ", before));
}

void CopyAssigner::BeginEpoch(uint32_t s) {
  heard_[s] = 0;
  troubled_since_[s].reset();
  lacks_end_[s].clear();
  untold_grants_[s].clear();
  ++changes_;
}

void CopyAssigner::SettleFollowers(uint32_t s, Time now) {
  ShardCopies* const shard = record_.mutable_shards(static_cast<int>(s));
  if (!IsLive(shard->leader(), s)) return;  // the followers may be needed
  const std::vector<uint32_t> copies(shard->copies().begin(), shard->copies().end());
  for (const uint32_t server : copies) {
    if (server == shard->leader()) continue;
    if (IsGone(server, now)) {
      Apply({CopyChange::kDrop, s, server}, &record_);
      ++changes_;
    } else if (IsHere(server) && !IsLive(server, s) && RemoveInSync(server, shard)) {
      ++changes_;  // the server was restarted: its last writes may be lost, so it must catch up
    }
  }
}

void CopyAssigner::Balance(News* news) {
  if (!record_.has_plan() || record_.over()) return;
  const std::set<uint32_t> present = Present();
  if (present != spread_over_) {
    targets_ = SpreadLeaders(record_, present, bytes_, options_.workers);
    spread_over_ = present;
  }
  CopyTargets targets{present, targets_, options_.copies};
  size_t catching_up = 0;
  for (int s = 0; s < record_.shards_size(); ++s) {
    const ShardCopies& shard = record_.shards(s);
    // Copies that cannot catch up must not keep others from it.
    if (IsLive(shard.leader(), static_cast<uint32_t>(s)))
      catching_up += static_cast<size_t>(std::ranges::count_if(
          shard.copies(), [&, number = static_cast<uint32_t>(s)](uint32_t server) {
            const CopyState* const copy = FindReport(server, number);
            const bool troubled = copy != nullptr && !copy->trouble().empty();
            return !IsInSync(shard, server) && IsHere(server) && !troubled;
          }));
    // A shard whose leader is away stays where it is until SettleLeader decides.
    if (!present.contains(shard.leader()) && !IsHere(shard.leader()))
      targets.leaders[s] = shard.leader();
  }
  for (uint32_t s = 0; s < static_cast<uint32_t>(record_.shards_size()); ++s) {
    const ShardCopies& shard = record_.shards(static_cast<int>(s));
    const uint32_t before = shard.leader();
    if (!IsLive(before, s)) continue;
    const auto change = NextChange(record_, s, targets);
    if (!change || (change->what == CopyChange::kAdd && catching_up >= kCatchingUp)) continue;
    // Copies are dropped once the leading copy reports that it leads.
    if (change->what == CopyChange::kDrop && FindLeading(shard, s) == nullptr) continue;
    catching_up += change->what == CopyChange::kAdd ? 1 : 0;
    Apply(*change, &record_);
    ++changes_;
    if (change->what == CopyChange::kPromote) {
      BeginEpoch(s);
      news->push_back(
          absl::StrCat("shard ", s, " moved from server ", before, " to server ", change->server));
    }
  }
}

absl::StatusOr<RebalanceReply> CopyAssigner::Rebalance(const RebalanceRequest& request) {
  std::vector<uint32_t> targets = SpreadLeaders(record_, Present(), bytes_, options_.workers);
  if (request.moves_size() > 0) targets = targets_;
  for (const RebalanceRequest::Move& move : request.moves()) {
    if (move.shard() >= targets.size()) {
      return NotFoundError("there is no shard ", move.shard(), "; ps-ctl status lists the shards");
    }
    if (!Present().contains(move.server())) {
      return NotFoundError("server ", move.server(),
                           " is not there, or leaves; ps-ctl status lists the servers");
    }
    targets[move.shard()] = move.server();
  }
  targets_ = targets;
  spread_over_ = Present();
  RebalanceReply reply;
  reply.mutable_owners()->Assign(targets.begin(), targets.end());
  return reply;
}

// --- Assignments
// ------------------------------------------------------------------------------------------

// A copy just read from disk leads only after SettleLeader chose it, and under a new epoch.
bool CopyAssigner::MayLead(uint32_t server, uint32_t s, uint64_t epoch) const {
  const CopyState* const copy = Find(server, s);
  if (copy == nullptr) return false;
  if (copy->epoch() > 0) return true;
  const auto& may_lead_from = peers_.at(server).may_lead_from;
  const auto from = may_lead_from.find(s);
  return from != may_lead_from.end() && epoch >= from->second;
}

void CopyAssigner::AddCopies(uint32_t server, const RunRecord& stored, const Mark& mark,
                             Assignment* assignment) const {
  for (int s = 0; s < stored.shards_size(); ++s) {
    const ShardCopies& shard = stored.shards(s);
    const auto number = static_cast<uint32_t>(s);
    if (!HoldsCopy(shard, server)) continue;
    AssignedCopy assigned;
    assigned.set_shard(number);
    assigned.set_epoch(shard.epoch());
    assigned.set_leader(shard.leader());
    assigned.set_copy(IdOf(shard, server));
    *assigned.mutable_in_sync() = shard.in_sync();
    for (const RunServer& other : stored.servers()) {
      if (other.server() == shard.leader()) assigned.set_leader_address(other.address());
    }
    if (shard.leader() == server) {
      assigned.set_fresh(!stored.has_plan());
      if (!assigned.fresh() && !MayLead(server, number, shard.epoch())) assigned.set_epoch(0);
      assigned.set_heard(mark.heard[number]);
    } else if (IsInSync(shard, server) && !HasBegun(server, number) &&
               (record_.shards(s).leader() == server || !IsLive(shard.leader(), number))) {
      // It was read from a disk, and may have to lead: it follows nobody until that is settled.
      assigned.set_epoch(0);
    }
    *assignment->add_copies() = std::move(assigned);
  }
}

void CopyAssigner::Assign(const RunRecord& stored, const Mark& mark, const Assignment& common,
                          ServerEffects* effects) {
  for (auto& [server, peer] : peers_) {
    const bool known = std::ranges::any_of(
        stored.servers(),
        [&, number = server](const RunServer& other) { return other.server() == number; });
    if (peer.link == 0 || !known || peer.came > mark.changes) continue;
    Assignment assignment = common;
    assignment.set_server(server);
    AddCopies(server, stored, mark, &assignment);
    Assignment same = assignment;
    same.clear_revision();  // a new revision alone changes nothing for the server
    std::string text = same.SerializeAsString();
    if (text == peer.assigned) continue;
    peer.assigned = std::move(text);
    for (const AssignedCopy& copy : assignment.copies()) {
      if (copy.leader() != server) continue;
      const auto& in_sync = copy.in_sync();
      std::erase_if(untold_grants_[copy.shard()], [&](const auto& grant) {
        return std::ranges::find(in_sync, grant.first) == in_sync.end();
      });
    }
    effects->push_back(effect::SendAssignment{peer.link, std::move(assignment)});
  }
}

}  // namespace psgd
