#include "server/coordinator/data_ledger.h"

#include <algorithm>
#include <numeric>

namespace psgd {
namespace {

uint64_t ClocksDone(const Segment& segment, uint64_t clock) {
  return clock > segment.first_clock() ? clock - segment.first_clock() : 0;
}

uint64_t StepsOf(const Segment& segment, int rank) {
  return segment.steps().empty() ? 1 : segment.steps(rank);
}

uint64_t BatchesOfClock(const Segment& segment) {
  if (segment.steps().empty()) return static_cast<uint64_t>(segment.workers_size());
  return std::accumulate(segment.steps().begin(), segment.steps().end(), uint64_t{0});
}

// Where in the segment batch i of the rank is. Within a clock, batch j of a rank with h steps comes
// before batch k of another with g steps if j / h < k / g, or if they are equal and its rank is
// smaller.
uint64_t IndexOf(const Segment& segment, int rank, uint64_t i) {
  if (segment.steps().empty()) return i * segment.workers_size() + rank;
  const uint64_t own = StepsOf(segment, rank), j = i % own;
  uint64_t before = 0;
  for (int other = 0; other < segment.workers_size(); ++other) {
    const uint64_t steps = StepsOf(segment, other);
    before += (j * steps + own - 1) / own;
    if (other < rank && j * steps % own == 0) ++before;
  }
  return i / own * BatchesOfClock(segment) + before;
}

uint64_t BatchesOf(const Segment& segment, int rank) {
  uint64_t size = 0;
  for (const BatchStretch& stretch : segment.stretches()) size += stretch.count();
  uint64_t batches = size / BatchesOfClock(segment) * StepsOf(segment, rank);
  while (IndexOf(segment, rank, batches) < size) ++batches;
  return batches;
}

bool WentBack(const LedgerRecord::Dealt& dealt, int rank) {
  return std::ranges::find(dealt.returned(), rank) != dealt.returned().end();
}

}  // namespace

LedgerPositionRecord ToRecord(const LedgerPosition& position) {
  const auto& [epoch, clock, steps, remaining, repeated, lost] =
      position;  // so that no field is forgotten
  LedgerPositionRecord record;
  record.set_epoch(epoch);
  record.set_clock(clock);
  record.set_steps(steps);
  *record.mutable_remaining() = remaining.Save();
  record.set_repeated_batches(repeated);
  record.set_lost_batches(lost);
  return record;
}

LedgerPosition FromRecord(const LedgerPositionRecord& record) {
  // Versions that wrote no steps dealt the member with most one batch a clock, and counted clocks
  // for train.max_steps. Micro-batches are parts of a batch, and no steps.
  const uint64_t steps = record.steps() == 0 ? record.clock() : record.steps();
  return {record.epoch(),
          record.clock(),
          steps,
          BatchQueue(record.remaining()),
          record.repeated_batches(),
          record.lost_batches()};
}

double ProgressAt(const LedgerPosition& position, uint32_t batches_per_epoch) {
  const double left = static_cast<double>(position.remaining.size()) / batches_per_epoch;
  // With returned batches, more batches may remain than an epoch has.
  return std::max<double>(position.epoch, position.epoch + 1.0 - left);
}

Segment ShareOf(const Segment& segment, uint32_t worker) {
  Segment share;
  share.set_id(segment.id());
  share.set_epoch(segment.epoch());
  share.set_first_clock(segment.first_clock());
  share.set_clocks(segment.clocks());
  share.add_workers(worker);
  share.set_epoch_at_start(segment.epoch_at_start());
  share.set_epochs_per_clock(segment.epochs_per_clock());
  share.set_ends_epoch(segment.ends_epoch());
  share.set_first_step(segment.first_step());
  const auto& workers = segment.workers();
  const auto rank = std::ranges::lower_bound(workers, worker) - workers.begin();
  share.set_rank(static_cast<uint32_t>(rank));
  share.set_ranks(static_cast<uint32_t>(workers.size()));
  if (!segment.steps().empty()) {
    share.add_steps(segment.steps(static_cast<int>(rank)));
    share.set_most_steps(*std::ranges::max_element(segment.steps()));
  }
  const uint64_t batches = BatchesOf(segment, static_cast<int>(rank));
  BatchReader reader(segment.stretches());
  for (uint64_t i = 0; i < batches; ++i)
    share.add_batches(reader.At(IndexOf(segment, static_cast<int>(rank), i)));
  return share;
}

DataLedger::DataLedger(const LedgerOptions& options) : options_(options) { StartEpoch(0); }

DataLedger::DataLedger(const LedgerOptions& options, const LedgerPosition& resume)
    : options_(options), position_(resume) {}

DataLedger::DataLedger(const LedgerOptions& options, const LedgerRecord& record)
    : options_(options), position_(FromRecord(record.position())), next_id_(record.next_id()) {
  for (const LedgerRecord::Dealt& dealt : record.dealt()) {
    Segment& segment = *(segments_[dealt.segment().id()] = dealt).mutable_segment();
    if (!segment.stretches().empty()) continue;
    BatchQueue listed;  // by an earlier version
    for (const uint32_t batch : segment.batches()) listed.Add(batch);
    *segment.mutable_stretches() = listed.Save();
    segment.clear_batches();
  }
}

LedgerRecord DataLedger::Save() const {
  LedgerRecord record;
  *record.mutable_position() = ToRecord(position_);
  for (const auto& [id, dealt] : segments_) *record.add_dealt() = dealt;
  record.set_next_id(next_id_);
  return record;
}

void DataLedger::StartEpoch(uint32_t epoch) {
  position_.epoch = epoch;
  position_.remaining = BatchQueue::UpTo(options_.batches_per_epoch);
}

uint32_t DataLedger::ClockBudget(uint64_t steps) const {
  if (options_.max_steps == 0) return options_.segment_clocks;
  const uint64_t left =
      options_.max_steps > position_.steps ? options_.max_steps - position_.steps : 0;
  return static_cast<uint32_t>(
      std::min<uint64_t>((left + steps - 1) / steps, options_.segment_clocks));
}

bool DataLedger::Finished() const {
  return ClockBudget(1) == 0 ||
         (position_.remaining.empty() && position_.epoch + 1 >= options_.epochs);
}

std::optional<Segment> DataLedger::Deal(const std::vector<uint32_t>& workers,
                                        const std::vector<uint32_t>& steps) {
  if (workers.empty() || Finished()) return std::nullopt;
  if (position_.remaining.empty()) StartEpoch(position_.epoch + 1);
  const double epoch_at_start = EpochProgress();

  Segment segment;
  segment.mutable_workers()->Add(workers.begin(), workers.end());
  segment.mutable_steps()->Add(steps.begin(), steps.end());
  const uint64_t of_clock = BatchesOfClock(segment);
  // The first of the members with the most steps gets the most batches. But of fewer batches than
  // members it may get none, and others one.
  const auto rank =
      static_cast<int>(steps.empty() ? 0 : std::ranges::max_element(steps) - steps.begin());
  const uint32_t clocks = ClockBudget(StepsOf(segment, rank));
  const BatchQueue batches = position_.remaining.Take(clocks * of_clock);
  segment.set_id(next_id_++);
  segment.set_epoch(position_.epoch);
  segment.set_first_clock(position_.clock);
  segment.set_clocks(static_cast<uint32_t>((batches.size() + of_clock - 1) / of_clock));
  *segment.mutable_stretches() = batches.Save();
  segment.set_epoch_at_start(epoch_at_start);
  segment.set_epochs_per_clock(static_cast<double>(of_clock) / options_.batches_per_epoch);

  segment.set_first_step(position_.steps);
  position_.clock += segment.clocks();
  position_.steps += std::max<uint64_t>(BatchesOf(segment, rank), 1);
  segment.set_ends_epoch(position_.remaining.empty() || Finished());
  *segments_[segment.id()].mutable_segment() = segment;
  return segment;
}

std::vector<ReturnedBatch> DataLedger::Return(uint32_t worker, uint64_t clock) {
  std::vector<ReturnedBatch> undone;
  for (auto& [id, dealt] : segments_) {
    const Segment& segment = dealt.segment();
    const auto& workers = segment.workers();
    const int rank = std::ranges::find(workers, worker) - workers.begin();
    if (rank == workers.size() || WentBack(dealt, rank)) continue;
    dealt.add_returned(rank);
    const uint64_t batches = BatchesOf(segment, rank);
    BatchReader reader(segment.stretches());
    for (uint64_t i = ClocksDone(segment, clock) * StepsOf(segment, rank); i < batches; ++i) {
      const uint32_t batch = reader.At(IndexOf(segment, rank, i));
      undone.push_back({id, segment.epoch(), batch});
      if (segment.epoch() == position_.epoch) {
        position_.remaining.Add(batch);
        ++position_.repeated;
      } else {
        ++position_.lost;  // the next epoch has begun, with another order of batches
      }
    }
  }
  return undone;
}

double DataLedger::Done(const std::function<uint64_t(uint32_t worker)>& clock) const {
  uint64_t undone = 0;
  for (const auto& [id, dealt] : segments_) {
    const Segment& segment = dealt.segment();
    for (int rank = 0; rank < segment.workers_size(); ++rank) {
      if (WentBack(dealt, rank)) continue;
      const uint64_t batches = BatchesOf(segment, rank);
      const uint64_t done = ClocksDone(segment, clock(segment.workers(rank)));
      undone += batches - std::min(batches, done * StepsOf(segment, rank));
    }
  }
  return std::max(0.0, EpochProgress() - static_cast<double>(undone) / options_.batches_per_epoch);
}

void DataLedger::Forget(uint64_t id) {
  // The latest segment stays: latest() returns its id.
  while (segments_.size() > 1 && segments_.begin()->first <= id) segments_.erase(segments_.begin());
}

const Segment* DataLedger::Find(uint64_t id) const {
  auto it = segments_.find(id);
  return it == segments_.end() ? nullptr : &it->second.segment();
}

bool DataLedger::EndsEpoch(uint64_t id) const {
  auto it = segments_.find(id);
  return it != segments_.end() && it->second.segment().ends_epoch();
}

bool DataLedger::WentOn(uint32_t epoch, uint64_t from, uint64_t to) const {
  return std::ranges::any_of(segments_, [&](const auto& entry) {
    const Segment& segment = entry.second.segment();
    return segment.epoch() == epoch && segment.first_clock() >= from && segment.first_clock() < to;
  });
}

}  // namespace psgd
