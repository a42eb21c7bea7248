#include "server/control/shard_moves.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/spread.h"

namespace psgd {
namespace {

// What is left is handed over in a few milliseconds.
constexpr size_t kLastBytes = 1u << 20;
constexpr int kMostRounds = 8;

}  // namespace

void ShardMoves::Spread(std::span<const uint32_t> servers) {
  target_ = SpreadShards(owners_, servers);
}

std::optional<ShardMoves::Step> ShardMoves::Next(bool begin) {
  if (!move_) {
    const auto [at, to] = std::mismatch(owners_.begin(), owners_.end(), target_.begin());
    if (!begin || at == owners_.end()) return std::nullopt;
    Move& move = *(move_ = Move());
    move.shard = static_cast<uint32_t>(at - owners_.begin());
    move.from = *at;
    move.to = *to;
    broken_ = false;
  }
  if (broken_ && move_->next <= Do::kWriteDown) {
    Fail(absl::UnavailableError(
        absl::StrCat("server ", move_->from, " or ", move_->to, " was away meanwhile")));
  }
  const bool goes = move_->failed.ok();
  Step step{move_->next, move_->shard, goes ? move_->to : move_->from, move_->last};
  if (step.what == Do::kGive) step.server = move_->from;
  if (step.what == Do::kDrop) step.server = goes ? move_->from : move_->to;
  if (step.what == Do::kWriteDown) owners_[move_->shard] = move_->to;
  return step;
}

void ShardMoves::Follow(const Followed& followed) {
  if (move_->last && followed.stands_still) {
    move_->next = Do::kWriteDown;
    return;
  }
  // Who pushes faster than that can follow is stopped.
  move_->last = move_->last || followed.bytes <= kLastBytes || followed.bytes >= move_->bytes ||
                ++move_->rounds == kMostRounds;
  move_->bytes = followed.bytes;
}

std::optional<ShardMoves::Ended> ShardMoves::Done(const absl::Status& status,
                                                  const Followed& followed) {
  if (move_->next == Do::kDrop) {
    Ended ended{move_->shard, move_->from, move_->to, move_->failed};
    if (!ended.status.ok() && !absl::IsUnavailable(ended.status)) target_[ended.shard] = ended.from;
    move_.reset();
    return ended;
  }
  if (status.ok() && move_->next == Do::kFollow) {
    Follow(followed);
  } else if (status.ok() || move_->next > Do::kWriteDown) {
    // One that is away is told when it comes back.
    move_->next = static_cast<Do>(static_cast<int>(move_->next) + 1);
  } else {
    Fail(status);
  }
  return std::nullopt;
}

void ShardMoves::Fail(const absl::Status& why) {
  owners_[move_->shard] = move_->from;
  move_->failed = why;
  move_->next = Do::kGoOn;
}

void ShardMoves::Away(uint32_t server) {
  broken_ = broken_ || (move_ && (server == move_->from || server == move_->to));
}

ShardMoves::CameBack ShardMoves::Back(uint32_t server, const std::set<uint32_t>& has) {
  Away(server);
  CameBack back;
  for (uint32_t shard = 0; shard < owners_.size(); ++shard) {
    if (owners_[shard] == server && !has.contains(shard)) back.lost.push_back(shard);
  }
  for (const uint32_t shard : has) {
    const bool holds = shard < owners_.size() && owners_[shard] == server;
    (holds ? back.go_on : back.drop).push_back(shard);
  }
  return back;
}

}  // namespace psgd
