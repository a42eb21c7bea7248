// The part of ParameterServer that keeps its run's chain: docs/durability.md, "Followers".
#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/control/leader_link.h"
#include "server/control/parameter_server.h"

namespace psgd {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(100);
// Each look is a new connection, which over a long way, with TLS, takes several round trips.
constexpr Duration kShortestLook = std::chrono::milliseconds(200);
constexpr Duration kLongestLook = std::chrono::seconds(5);
constexpr Duration kFirstLookPatience = std::chrono::seconds(2);
// Whoever died and is started again waits so long for a lease to run out that may be nobody's.
constexpr Duration kLeaseOfTheDead = std::chrono::seconds(10);
constexpr Duration kLeasePoll = std::chrono::milliseconds(200);

std::string DeposedBy(const std::string& address) {
  return absl::StrCat("a follower took over: the server at ", address,
                      " leads this run by now. Join it with  "
                      "ps-server --follow ",
                      address);
}

}  // namespace

void ParameterServer::MakeKeeper() {
  const auto& durability = options_.config.durability();
  const bool replicated = durability.acknowledge() == DurabilityConfig::REPLICATED;
  auto chains = options_.chains;
  if (!replicated && chains == nullptr) return;
  if (chains == nullptr) chains = std::make_shared<RecordedChain>(Chain());
  auto followers = followers_;
  if (followers == nullptr) {
    followers = std::make_shared<FollowerSet>(options_.config.cluster().shards(),
                                              Milliseconds(durability.takeover()));
  }
  keeper_ = std::make_unique<ChainKeeper>(std::move(chains), followers, options_.replica);
  // Else nobody follows, and the chain only says where this server is.
  if (replicated) followers_ = std::move(followers);
}

absl::StatusOr<LedChain> ParameterServer::RecoverLead(ParameterServerOptions& options,
                                                      const Chain& chain,
                                                      const std::string& address) {
  if (options.chains == nullptr) {
    PSGD_ASSIGN_OR_RETURN(LedChain led, RecoverLeadByOrder(options, chain));
    options.chains = std::make_shared<RecordedChain>(led.chain);
    return led;
  }
  const Time start = SteadyNow();
  auto led = LeadAgain(*options.chains, chain, options.replica, address);
  while (!led.ok() && !absl::IsFailedPrecondition(led.status()) &&
         SteadyNow() - start < kLeaseOfTheDead) {
    std::this_thread::sleep_for(kLeasePoll);
    led = LeadAgain(*options.chains, chain, options.replica, address);
  }
  return led;
}

absl::StatusOr<LedChain> ParameterServer::RecoverLeadByOrder(const ParameterServerOptions& options,
                                                             const Chain& chain) {
  if (!IsIn(chain, options.replica)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "server ", options.replica,
        " was not in the run's chain, so others may know more; recover ", "the last one of it"));
  }
  for (const Chain::Member& member : chain.members()) {
    if (member.replica() == options.replica) continue;
    const auto other = WhoLeads(member.address(), options.credentials.get(), kFirstLookPatience);
    if (!other.ok() || !other->leads() || other->chain().epoch() < chain.epoch()) continue;
    return absl::FailedPreconditionError(absl::StrCat("server ", member.replica(), " at ",
                                                      member.address(),
                                                      " leads this run by now; join it with "
                                                      "ps-server --follow ",
                                                      member.address()));
  }
  const bool led = chain.members(0).replica() == options.replica;
  Chain next = led ? chain : TakenOver(chain, options.replica);
  const auto revision = static_cast<int64_t>(next.epoch());
  return LedChain{std::move(next), revision};
}

bool ParameterServer::WaitsForFollowers(std::string* reason) const {
  // Once all were there, those that are left have to do.
  if (followers_ == nullptr || gathered_ || core_.over()) return false;
  *reason =
      absl::StrCat("waiting for ",
                   options_.config.durability().followers() + 1 - keeper_->chain().members_size(),
                   " more followers (durability.followers): ps-server --follow ", control_address_);
  return true;
}

Chain ParameterServer::ChainFor(const WorkerKey& worker) {
  Chain chain = keeper_->chain();
  for (const Chain::Member& member : followers_->NotYetIn(chain)) *chain.add_members() = member;
  const auto at = introduced_.find({worker.worker(), worker.incarnation()});
  if (at == introduced_.end()) return chain;
  std::set<std::string> named;
  for (const Chain::Member& member : chain.members()) named.insert(member.address());
  for (std::set<std::string>* heard_of : {&at->second.told, &at->second.known}) {
    std::erase_if(*heard_of, [&](const std::string& address) { return !named.contains(address); });
  }
  return chain;
}

void ParameterServer::Introduce(const WorkerKey& worker, uint64_t report, const Chain& chain) {
  Introduced& introduced = introduced_[{worker.worker(), worker.incarnation()}];
  if (report <= introduced.report) return;  // it may have missed the answer
  introduced.report = report;
  introduced.known = std::move(introduced.told);
  introduced.told.clear();
  for (const Chain::Member& member : chain.members()) introduced.told.insert(member.address());
}

void ParameterServer::ForgetIntroductions() {
  if (introduced_.empty()) return;
  const StatusReply status = core_.Status(SteadyNow());
  std::set<std::pair<uint32_t, uint32_t>> live;
  for (const WorkerStatus& worker : status.workers()) {
    if (worker.live()) live.emplace(worker.key().worker(), worker.key().incarnation());
  }
  std::erase_if(introduced_, [&](const auto& entry) { return !live.contains(entry.first); });
}

bool ParameterServer::EveryWorkerKnows(const std::string& address) const {
  const StatusReply status = core_.Status(SteadyNow());
  return std::all_of(
      status.workers().begin(), status.workers().end(), [&](const WorkerStatus& worker) {
        if (!worker.live()) return true;
        const auto at = introduced_.find({worker.key().worker(), worker.key().incarnation()});
        return at != introduced_.end() && at->second.known.contains(address);
      });
}

void ParameterServer::ChainLoop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    KeepChain();
    lock.lock();
    changed_.wait_for(lock, kPeriod, [&] { return stopping_; });
  }
}

void ParameterServer::KeepChain() {
  const absl::Status kept = keeper_->Keep();
  if (const std::string by = keeper_->deposed_by(); !by.empty()) {
    return SetDeposed(
        followers_ != nullptr
            ? DeposedBy(by)
            : absl::StrCat("this run was recovered elsewhere: its server is at ", by, " by now"));
  }
  SetChainTrouble(kept);
  if (followers_ == nullptr) return;
  // Else the store has just said who leads, and is to be told again in time.
  if (!kept.ok() || !keeper_->decides()) LookForAnotherLeader();
  // The run may have come to its end without this server; a follower that is there would have said
  // so.
  if (absl::IsFailedPrecondition(kept) &&
      !followers_->Gone(Milliseconds(options_.config.durability().takeover())).empty()) {
    return SetDeposed(absl::StrCat(kept.message(),
                                   " Or another led it to its end? This server waits for a "
                                   "follower that is gone, and may not go on without it"));
  }
  if (!kept.ok()) return;
  (void)WriteDownChain();  // what a follower had not written the last time
  TakeInFollowers();
  if (keeper_->decides()) DropGoneFollowers();
}

void ParameterServer::TakeInFollowers() {
  std::vector<Chain::Member> coming;
  for (Chain::Member& member : followers_->Ready()) {
    std::lock_guard lock(mutex_);
    // A worker that has not heard of it would not find it after it took over.
    if (EveryWorkerKnows(member.address())) coming.push_back(std::move(member));
  }
  const Chain chain = keeper_->chain();
  for (Chain::Member& member : followers_->Required()) {
    if (!IsIn(chain, member.replica())) coming.push_back(std::move(member));
  }
  for (const Chain::Member& member : coming) {
    const auto in = keeper_->TakeIn(member);
    if (!in.ok()) return SetChainTrouble(in.status());
    if (!*in) continue;
    {
      std::lock_guard lock(mutex_);
      gathered_ =
          gathered_ || keeper_->chain().members_size() > options_.config.durability().followers();
    }
    (void)ChainChanged(
        absl::StrCat("server ", member.replica(), " at ", member.address(),
                     " follows: acknowledgements wait for it, and it would take over"));
  }
}

void ParameterServer::DropGoneFollowers() {
  for (const Chain::Member& member :
       followers_->Gone(Milliseconds(options_.config.durability().takeover()))) {
    const absl::Status out = keeper_->TakeOut(member.replica());
    if (!out.ok()) return SetChainTrouble(out);
    (void)ChainChanged(absl::StrCat("server ", member.replica(), " at ", member.address(),
                                    " is gone: the run goes on without it"));
  }
}

absl::Status ParameterServer::ChainChanged(std::string news) {
  {
    std::lock_guard lock(mutex_);
    chain_news_.push_back(std::move(news));
  }
  const absl::Status written = WriteDownChain();
  if (!written.ok()) options_.log->error("{}", written.ToString());
  return written;
}

absl::Status ParameterServer::WriteDownChain() {
  std::unique_lock lock(mutex_);
  if (chain_news_.empty()) return absl::OkStatus();
  std::vector<std::string> news = std::exchange(chain_news_, {});
  absl::Status written = SaveRecord(/*wait_for_disk=*/false);
  const uint64_t record = shipped_records_;
  lock.unlock();  // others go on while a follower is slow
  if (written.ok()) written = followers_->WaitWritten(followers_->coordinator_log(), record);
  lock.lock();
  if (written.ok()) {
    for (const std::string& line : news) Tell(line);
  } else {
    chain_news_.insert(chain_news_.begin(), news.begin(), news.end());
  }
  return written;
}

void ParameterServer::LookForAnotherLeader() {
  const Duration patience = std::clamp<Duration>(
      Milliseconds(options_.config.durability().takeover()), kShortestLook, kLongestLook);
  // All at once: one that is cut off is waited for in vain.
  std::vector<std::pair<std::string, std::future<absl::StatusOr<Leadership>>>> asked;
  for (const Chain::Member& member : followers_->Missing()) {
    asked.emplace_back(member.address(),
                       std::async(std::launch::async, [this, patience, at = member.address()] {
                         return WhoLeads(at, options_.credentials.get(), patience);
                       }));
  }
  for (auto& [address, answer] : asked) {
    const auto other = answer.get();
    if (!other.ok() || !other->leads()) continue;
    if (other->chain().epoch() > keeper_->chain().epoch()) SetDeposed(DeposedBy(address));
  }
}

void ParameterServer::SetDeposed(std::string why) {
  std::lock_guard lock(mutex_);
  if (!deposed_.empty()) return;
  deposed_ = std::move(why);
  options_.log->error("this server ends: {}", deposed_);
  changed_.notify_all();
  // Followers would refuse what it writes down; where there are none, nobody else keeps it from
  // going on.
  if (followers_ == nullptr) local_->Clear();
}

void ParameterServer::SetChainTrouble(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  std::string trouble(status.message());
  if (chain_trouble_.empty() && !status.ok()) {
    options_.log->warn(
        "nobody can change which servers the run has: {}; training goes on with those that "
        "it has",
        trouble);
  } else if (!chain_trouble_.empty() && status.ok()) {
    options_.log->info("the run's servers can be changed again");
  }
  chain_trouble_ = std::move(trouble);
}

Chain ParameterServer::chain() const { return keeper_ == nullptr ? Chain() : keeper_->chain(); }

std::string ParameterServer::deposed() const {
  std::lock_guard lock(mutex_);
  return deposed_;
}

absl::Status ParameterServer::EndChain() {
  return keeper_ == nullptr ? absl::OkStatus() : keeper_->End();
}

absl::StatusOr<DropFollowerReply> ParameterServer::DropFollower(
    const DropFollowerRequest& request) {
  if (!IsIn(chain(), request.replica()) || request.replica() == options_.replica) {
    return absl::NotFoundError(absl::StrCat("server ", request.replica(),
                                            " is not one of this run's followers; ps-ctl status "
                                            "shows them"));
  }
  // The caller is not to try for as long as it takes.
  if (const absl::Status out = keeper_->TakeOut(request.replica()); !out.ok()) {
    return absl::FailedPreconditionError(out.message());
  }
  PSGD_RETURN_IF_ERROR(
      ChainChanged(absl::StrCat("goes on without follower ", request.replica(), ", as asked")));
  DropFollowerReply reply;
  *reply.mutable_chain() = chain();
  return reply;
}

}  // namespace psgd
