#include "worker/autotune.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/units.h"

namespace psgd {
namespace {

// After measuring, none for so many times as long as it took.
constexpr int kRestAfter = 10;

// The shortest that any choice asks for.
Duration RemeasureAfter(const CompressionConfig& compression) {
  int64_t shortest = 0;
  const auto consider = [&](const CodecConfig& codec) {
    const int64_t after = codec.auto_().remeasure();
    if (!codec.has_auto_() || after == 0) return;
    shortest = shortest == 0 ? after : std::min(shortest, after);
  };
  consider(compression.push());
  for (const CompressionRule& rule : compression.rules()) consider(rule.push());
  return Milliseconds(shortest);
}

double Total(const CodecChoices::Candidate& candidate) {
  return candidate.seconds_encode() + candidate.seconds_send() + candidate.seconds_decode();
}

// As "fc1.weight: onebit 1.24 ms (fp16 3.10, int8 2.04, topk 1.31)".
std::string TensorText(const CodecChoices::Tensor& tensor) {
  std::string others;
  for (int i = 0; i < tensor.candidates_size(); ++i) {
    if (i == static_cast<int>(tensor.chosen())) continue;
    absl::StrAppendFormat(&others, "%s%s %.3g", others.empty() ? "" : ", ",
                          tensor.candidates(i).codec(), 1e3 * Total(tensor.candidates(i)));
  }
  const CodecChoices::Candidate& chosen = tensor.candidates(static_cast<int>(tensor.chosen()));
  return absl::StrFormat("%s: %s %.3g ms (%s)", tensor.parameter(), chosen.codec(),
                         1e3 * Total(chosen), others);
}

}  // namespace

Autotune::Autotune(AutotuneOptions options, UpdateEncoder* encoder, Session* session)
    : options_(std::move(options)),
      remeasure_(RemeasureAfter(options_.compression)),
      encoder_(encoder),
      session_(session) {}

void Autotune::Pushed(size_t bytes) { watch_.Pushed(bytes, SteadyNow()); }

bool Autotune::Due() const {
  if (!measured_) return encoder_->tried();
  const Duration age = SteadyNow() - measured_at_;
  if (age < kRestAfter * took_) return false;
  return watch_.changed() || (remeasure_ > Duration::zero() && age >= remeasure_);
}

absl::Status Autotune::BetweenSteps(uint64_t clock) {
  if (!encoder_->chooses()) return absl::OkStatus();
  if (const auto at = session_->AcknowledgedAt()) {
    watch_.Acknowledged(*at);
  } else {
    watch_.Missed();
  }
  if (!Due()) return absl::OkStatus();
  if (watch_.changed()) {
    options_.log->info("step {}: pushes take other times than the link's speed says", clock);
  }
  const Time start = SteadyNow();
  PSGD_ASSIGN_OR_RETURN(const LinkSpeed speed, session_->MeasureLink());
  const bool other = encoder_->Choose(speed);
  watch_.Measured(speed);
  Tell(clock, speed, other);
  measured_ = true;
  measured_at_ = SteadyNow();
  took_ = measured_at_ - start;
  return absl::OkStatus();
}

void Autotune::Tell(uint64_t clock, const LinkSpeed& speed, bool other) const {
  options_.log->info("step {}: the link carries {}/s, a round trip takes {:.3g} ms{}", clock,
                     HumanBytes(speed.bytes_per_second), 1e3 * speed.round_trip_seconds,
                     other ? "; codecs from here on:" : "; the codecs stay");
  if (!other) return;
  CodecChoices choices = encoder_->Choices(speed);
  choices.set_clock(clock);
  choices.set_worker(options_.worker);
  for (const CodecChoices::Tensor& tensor : choices.tensors()) {
    options_.log->info("  {}", TensorText(tensor));
  }
  options_.report(choices);
}

}  // namespace psgd
