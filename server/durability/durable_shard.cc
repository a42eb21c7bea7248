#include "server/durability/durable_shard.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace psgd {
namespace {

ShardOptions WithJournal(ShardOptions options, bool journal) {
  options.journal = journal;
  return options;
}

}  // namespace

DurableShardOptions DurableShardOptionsOf(const Config& config, uint32_t shard, uint32_t starts) {
  DurableShardOptions options;
  options.shard.shard = shard;
  options.shard.config = config;
  options.shard.held_bytes = config.cluster().queue();
  options.shard.starts = starts;
  options.image_after = config.durability().journal();
  return options;
}

DurableShard::DurableShard(DurableShardOptions options)
    : journal_(std::move(options.journal)),
      image_after_(options.image_after),
      shard_(options.shard.shard),
      core_(WithJournal(std::move(options.shard), journal_ != nullptr)) {}

absl::StatusOr<std::unique_ptr<DurableShard>> DurableShard::Recover(
    DurableShardOptions options, std::vector<std::string>* notes) {
  auto shard = std::make_unique<DurableShard>(std::move(options));
  PSGD_RETURN_IF_ERROR(shard->Replay(notes));
  return shard;
}

absl::Status DurableShard::Replay(std::vector<std::string>* notes) {
  PSGD_ASSIGN_OR_RETURN(const ShardImage image, journal_->LoadImage(notes));
  PSGD_RETURN_IF_ERROR(core_.Restore(image));
  entries_ = image.record.entry();
  return journal_->Replay(entries_,
                          [this](const JournalEntry& entry) { return ReplayEntry(entry); });
}

absl::Status DurableShard::ReplayEntry(const JournalEntry& entry) {
  ++entries_;
  bytes_since_image_ += entry.bytes();
  const absl::Status status = core_.Replay(entry);
  while (auto cut = TakeFinishedCut()) replayed_cut_ = std::move(cut);
  return status;
}

absl::StatusOr<std::unique_ptr<DurableShard>> DurableShard::FromImage(DurableShardOptions options,
                                                                      const ShardImage& image) {
  auto shard = std::make_unique<DurableShard>(std::move(options));
  PSGD_RETURN_IF_ERROR(shard->core_.Restore(image));
  shard->entries_ = image.record.entry();
  if (shard->journal_ == nullptr) return shard;
  PSGD_RETURN_IF_ERROR(shard->journal_->BeginLog(shard->entries_ + 1));
  PSGD_RETURN_IF_ERROR(shard->journal_->SaveImage(image));
  return shard;
}

absl::Status DurableShard::Follow(uint64_t first, std::vector<JournalEntry> entries) {
  if (first > entries_ + 1) {
    return DataLossError("entries ", entries_ + 1, " to ", first - 1, " were not sent");
  }
  const uint64_t known = std::min<uint64_t>(entries_ + 1 - first, entries.size());
  entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(known));
  if (entries.empty()) return absl::OkStatus();
  if (journal_ != nullptr) PSGD_RETURN_IF_ERROR(journal_->Append(entries_ + 1, entries));
  core_.KeepJournal(true);  // a replayed step is checked by the entry that it makes
  for (const JournalEntry& entry : entries) PSGD_RETURN_IF_ERROR(ReplayEntry(entry));
  core_.KeepJournal(journal_ != nullptr || keeps_steps_);
  return absl::OkStatus();
}

void DurableShard::KeepSteps() {
  keeps_steps_ = true;
  core_.KeepJournal(true);
}

void DurableShard::OnMessage(PeerId from, Message message) {
  if (!stalled_.ok() || !turns_away_.ok()) return TurnAway(from, message);
  core_.OnMessage(from, std::move(message), &held_);
  Gather();
}

void DurableShard::Tick(Time now, Duration lost) {
  // Workers that are turned away are not late.
  if (!stalled_.ok() || !turns_away_.ok()) return core_.grace().Forget();
  core_.grace().Extend(lost);
  core_.Tick(now, &held_);
  Gather();
}

absl::Status DurableShard::Execute(const ShardCommand& command, uint64_t number) {
  PSGD_RETURN_IF_ERROR(core_.Execute(command, &held_, number));
  Gather();
  if (journal_ == nullptr || !std::holds_alternative<InstallModel>(command))
    return absl::OkStatus();
  const absl::Status written = FirstImage();
  // A full disk may have room later.
  return absl::IsResourceExhausted(written) ? absl::UnavailableError(written.message()) : written;
}

absl::Status DurableShard::FirstImage() {
  PSGD_RETURN_IF_ERROR(journal_->BeginLog(entries_ + unwritten_.size() + 1));
  // The first image includes the orders that came before the model.
  entries_ += unwritten_.size();
  unwritten_.clear();
  uncommitted_bytes_ = 0;
  return journal_->SaveImage(ImageNow());
}

ShardImage DurableShard::ImageNow() const {
  ShardImage image = core_.MakeImage();
  image.record.set_entry(entries_ + unwritten_.size());
  return image;
}

std::optional<ShardImage> DurableShard::ImageForCopy() const {
  return MayMakeImage() ? std::make_optional(ImageNow()) : std::nullopt;
}

void DurableShard::Gather() {
  std::vector<JournalEntry> entries = core_.TakeJournal();
  for (const JournalEntry& entry : entries) uncommitted_bytes_ += entry.bytes();
  std::move(entries.begin(), entries.end(), std::back_inserter(unwritten_));
}

void DurableShard::Commit(Outbox* out, Outbox* refusals, std::vector<JournalEntry>* written) {
  std::move(turned_away_.begin(), turned_away_.end(), std::back_inserter(*refusals));
  turned_away_.clear();
  // Without a model there is nothing to write to: the first image will include the steps so far.
  if (core_.has_model() && !unwritten_.empty()) {
    if (journal_ != nullptr) stalled_ = journal_->Append(entries_ + 1, unwritten_);
    if (!stalled_.ok()) return;
    entries_ += unwritten_.size();
    bytes_since_image_ += uncommitted_bytes_;
    written->swap(unwritten_);
    uncommitted_bytes_ = 0;
  }
  std::move(held_.begin(), held_.end(), std::back_inserter(*out));
  held_.clear();
}

void DurableShard::TurnAway(PeerId from, const Message& message) {
  Message refusal;
  refusal.header.set_worker(message.header.worker());
  refusal.header.set_incarnation(message.header.incarnation());
  refusal.header.set_shard(shard_);
  refusal.header.mutable_refusal()->set_reason(Refusal::OVERLOADED);
  refusal.header.mutable_refusal()->set_detail(
      !stalled_.ok() ? absl::StrCat("the shard's journal cannot be written: ", stalled_.message())
                     : std::string(turns_away_.message()));
  turned_away_.push_back({from, std::move(refusal)});
}

std::optional<ShardCut> DurableShard::TakeFinishedCut() {
  auto cut = core_.TakeFinishedCut();
  if (cut) cut_ = cut->checkpoint;
  return cut;
}

void DurableShard::CheckpointDone(uint64_t checkpoint) {
  cut_done_ = std::max(cut_done_, checkpoint);
  if (replayed_cut_ && replayed_cut_->checkpoint <= cut_done_) replayed_cut_.reset();
}

std::optional<ShardImage> DurableShard::TakeDueImage() {
  if (journal_ == nullptr || image_under_way_ || bytes_since_image_ < image_after_ ||
      !unwritten_.empty() || !MayMakeImage()) {
    return std::nullopt;
  }
  if (!journal_->BeginLog(entries_ + 1).ok()) return std::nullopt;  // the next Append reports why
  image_under_way_ = true;
  bytes_since_image_ = 0;
  return ImageNow();
}

void DurableShard::ImageSaved(const absl::Status& status) {
  image_under_way_ = false;
  // A failed image is tried again after half of the usual bytes.
  if (!status.ok()) bytes_since_image_ = std::max(bytes_since_image_, image_after_ / 2);
}

}  // namespace psgd
