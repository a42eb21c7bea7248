// Sends many data-plane messages, most of them changed, to shards that keep training. No
// changed message passes as a valid one, a refused message changes nothing, and correct workers are
// still served.
//   mutated_messages 1000000
#include <array>
#include <cstring>
#include <map>

#include "common/philox.h"
#include "net/wire_format.h"
#include "tests/fuzz/small_shard.h"

namespace psgd::fuzz {
namespace {

constexpr size_t kMostBytes = 1u << 20;

struct Counts {
  uint64_t damaged = 0;   // refused by the wire format
  uint64_t accepted = 0;  // changed pushes that were accepted
  uint64_t proper = 0;    // unchanged pushes that were accepted
  std::map<std::string, uint64_t> refused;
};

class Mutator {
 public:
  explicit Mutator(RandomStream* random) : random_(*random) {}

  // Keeps the first `keep` bytes unchanged.
  std::vector<std::byte> Mutate(const std::vector<std::byte>& bytes, size_t keep) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(std::min(keep, bytes.size()));
    std::vector<std::byte> changed(bytes.begin(), from), rest(from, bytes.end());
    for (uint32_t edits = 1 + Below(3); edits > 0; --edits) Edit(&rest);
    changed.insert(changed.end(), rest.begin(), rest.end());
    return changed;
  }

 private:
  uint32_t Below(size_t limit) { return random_.NextBelow(static_cast<uint32_t>(limit)); }

  void Edit(std::vector<std::byte>* bytes) {
    constexpr uint32_t kOdd[] = {0,          0x7F,       0xFFFF,     0x7FFFFFFF, 0x80000000,
                                 0xFFFFFFFF, 0x7F800000, 0x7FC00000, 0x7F7FFFFF, 0x00000001};
    if (bytes->empty()) return;
    const size_t at = Below(bytes->size());
    const auto here = bytes->begin() + static_cast<std::ptrdiff_t>(at);
    switch (Below(20)) {
      case 0:
        return bytes->resize(at);
      case 1:
        bytes->insert(here, 1 + Below(8), std::byte(random_.NextBits()));
        return;
      case 2:
        bytes->erase(here, here + 1 + Below(std::min<size_t>(8, bytes->size() - at)));
        return;
      case 3:
      case 4: {
        const uint32_t odd = kOdd[Below(std::size(kOdd))];
        std::memcpy(bytes->data() + at, &odd, std::min(sizeof odd, bytes->size() - at));
        return;
      }
      case 5:
        *here = std::byte(random_.NextBits());
        return;
      default:
        *here ^= std::byte(1u << Below(8));
    }
  }

  RandomStream& random_;
};

std::vector<std::byte> Flat(const Message& message) {
  const EncodedMessage encoded = EncodeMessage(message, kMostBytes).value();
  std::vector<std::byte> bytes;
  for (const Bytes& frame : encoded.frames) {
    bytes.insert(bytes.end(), frame.span().begin(), frame.span().end());
  }
  return bytes;
}

// Corrects lengths and checksum, so that the code behind these checks is tested, too.
void Reseal(std::vector<std::byte>* bytes) {
  if (bytes->size() < kPreludeBytes) return;
  const uint64_t rest = bytes->size() - kPreludeBytes;
  uint32_t header;
  std::memcpy(&header, bytes->data() + kHeaderBytesAt, sizeof header);
  header = static_cast<uint32_t>(std::min<uint64_t>(header, rest));
  const uint64_t body = rest - header;
  std::memcpy(bytes->data() + kHeaderBytesAt, &header, sizeof header);
  std::memcpy(bytes->data() + kBodyBytesAt, &body, sizeof body);
  Checksum checksum;
  checksum.Add(ByteSpan(*bytes).first(kChecksumAt));
  checksum.Add(ByteSpan(*bytes).subspan(kPreludeBytes));
  const uint64_t value = checksum.Value();
  std::memcpy(bytes->data() + kChecksumAt, &value, sizeof value);
}

// An update on the wire: the payload, plain or packed.
struct Travelling {
  CodecId codec = CODEC_NONE;
  PackedPayload payload;
};

// Payloads of every codec for every slice, plain and packed.
class Payloads {
 public:
  Payloads() {
    LosslessConfig config;
    config.mutable_zstd();
    const auto packer = Packer::Make(config);
    for (const CodecConfig& codec_config : DefaultCodecs()) {
      const auto codec = MakeCodec(codec_config).value();
      for (uint32_t slice = 0; slice < std::size(kSliceElements); ++slice) {
        SliceShape shape;
        shape.elements = kSliceElements[slice];
        shape.tensor_rows = slice < 2 ? kMatrixRows : kSliceElements[slice];
        shape.tensor_columns = slice < 2 ? kMatrixColumns : 1;
        shape.offset = slice == 1 ? kSliceElements[0] : 0;
        const auto encoder = codec->NewEncoder(shape);
        std::vector<float> gradient(shape.elements, 0.01f);
        std::vector<float> residual(codec->keeps_residual() ? shape.elements : 0);
        for (uint32_t i = 0; i < shape.elements; ++i) gradient[i] *= static_cast<float>(i % 7) - 3;
        std::vector<std::byte> payload;
        encoder->Encode({gradient, residual, MakeKey(1, RandomPurpose::kCodec), slice}, &payload);
        const PackedPayload packed = packer->PackIn(1, payload);
        if (packed.planes > 0) by_slice_[slice].push_back({codec->id(), packed});
        by_slice_[slice].push_back({codec->id(), {0, Bytes::Adopt(std::move(payload))}});
      }
    }
  }
  const Travelling& Draw(uint32_t slice, RandomStream* random) const {
    const auto& of_slice = by_slice_[slice];
    return of_slice[random->NextBelow(static_cast<uint32_t>(of_slice.size()))];
  }

 private:
  std::array<std::vector<Travelling>, std::size(kSliceElements)> by_slice_;
};

// Three workers of one shard. They follow the shard's answers, since a change may alter what a
// message does.
class Traffic {
 public:
  Traffic(const std::string& kind, bool cuts, const Payloads& payloads)
      : cuts_(cuts), synchronous_(kind == "sync"), payloads_(payloads), shard_(SmallConfig(kind)) {}

  void Step(RandomStream* random, Counts* counts) {
    const uint32_t w = random->NextBelow(kShardWorkers);
    if (random->NextBelow(60) == 0) return Renew(counts);
    if (cuts_ && random->NextBelow(200) == 0) return Cut(random);
    const Message message = Make(w, random);
    std::vector<std::byte> bytes = Flat(message);
    const std::vector<std::byte> sound = bytes;
    const bool change = random->NextBelow(16) != 0;
    const bool resealed = change && random->NextBelow(5) != 0;
    // Mutate any byte, bytes after the prelude, or only payloads.
    uint32_t header;
    std::memcpy(&header, bytes.data() + kHeaderBytesAt, sizeof header);
    const size_t keep[] = {0, kPreludeBytes, kPreludeBytes + header, kPreludeBytes + header};
    if (change) bytes = Mutator(random).Mutate(bytes, resealed ? keep[random->NextBelow(4)] : 0);
    if (resealed) Reseal(&bytes);
    const bool changed = bytes != sound;
    const Bytes whole = Bytes::Adopt(std::move(bytes));
    auto decoded = DecodeMessage({&whole, 1}, kMostBytes);
    if (!decoded.ok()) {
      Require(changed, "a sound message was refused");
      ++counts->damaged;
      return;
    }
    Require(!changed || resealed, "a damaged message was taken for a sound one");
    Send(*std::move(decoded), changed, counts);
  }

 private:
  struct Worker {
    uint32_t incarnation = 1;
    uint64_t seq = 1;    // of its next push
    uint64_t clock = 0;  // of its last push
  };

  Message Make(uint32_t w, RandomStream* random) {
    const Worker& worker = workers_[w];
    Message message;
    message.header.set_worker(w);
    message.header.set_incarnation(worker.incarnation);
    switch (random->NextBelow(8)) {
      case 0:
        message.header.mutable_hello()->set_probe(random->NextBelow(100));
        return message;
      case 1:
        message.header.mutable_load_state()->set_request(3);
        return message;
      case 2: {
        SaveState* save = message.header.mutable_save_state();
        save->set_seq(worker.seq);
        save->set_checkpoint(cut_);
        save->set_last(true);
        save->add_slices(2);
        message.payloads.push_back(
            Bytes::CopyOf(AsBytes(std::vector<float>(kSliceElements[2], 1))));
        return message;
      }
      case 3:
      case 4: {
        Pull* pull = message.header.mutable_pull();
        pull->set_request(++request_);
        pull->set_clock(worker.clock);
        for (size_t i = 0; i < std::size(kSliceElements); ++i)
          pull->add_marks(random->NextBelow(3));
        return message;
      }
      default:
        return PushOf(w, random);
    }
  }

  Message PushOf(uint32_t w, RandomStream* random) {
    Message message;
    message.header.set_worker(w);
    message.header.set_incarnation(workers_[w].incarnation);
    Push* push = message.header.mutable_push();
    push->set_seq(workers_[w].seq);
    push->set_clock(workers_[w].clock + 1);
    push->set_end_of_clock(true);
    for (uint32_t slice = 0; slice < std::size(kSliceElements); ++slice) {
      if (random->NextBelow(2) == 0) continue;
      const auto& [codec, payload] = payloads_.Draw(slice, random);
      PushPart* part = push->add_parts();
      part->set_slice(slice);
      part->set_codec(codec);
      part->set_zstd(payload.planes);
      message.payloads.push_back(payload.frame);
    }
    return message;
  }

  void Send(Message message, bool changed, Counts* counts) {
    const std::vector<float> before = shard_.Weights();
    const bool push = message.header.has_push();
    const Outbox out = shard_.Send(std::move(message));
    Require(shard_.core().waiting_pulls() <= kShardWorkers,
            "more pulls wait than there are workers");
    bool refused = false, acknowledged = false;
    for (const Outgoing& outgoing : out) {
      const DataHeader& header = outgoing.message.header;
      refused = refused || header.has_refusal();
      acknowledged = acknowledged || header.has_push_ack();
      if (header.has_refusal()) ++counts->refused[Refusal::Reason_Name(header.refusal().reason())];
      Learn(header);
    }
    const std::vector<float> after = shard_.Weights();
    Require(AllFinite(after), "a weight is not finite");
    // A message may release earlier pushes that clocks or a checkpoint held back.
    if (!cuts_ && (!push || (refused && !synchronous_))) {
      Require(before == after, "the weights changed without a push that was accepted");
    }
    if (push && acknowledged) ++(changed ? counts->accepted : counts->proper);
    while (shard_.core().TakeFinishedCut()) {
    }
  }

  // Updates a worker's state from the shard's answer.
  void Learn(const DataHeader& header) {
    if (header.worker() >= kShardWorkers) return;
    Worker& worker = workers_[header.worker()];
    if (header.incarnation() != worker.incarnation) return;
    uint64_t next = 0;
    if (header.has_push_ack()) next = header.push_ack().next_seq();
    if (header.has_refusal()) next = header.refusal().next_seq();
    if (header.has_welcome()) next = header.welcome().next_seq();
    if (next > worker.seq && header.has_push_ack()) ++worker.clock;
    if (next > worker.seq && header.has_refusal()) ++worker.clock;
    worker.seq = std::max(worker.seq, next);
    if (header.has_welcome() && !synchronous_ && !cuts_) worker.clock = header.welcome().clock();
  }

  // All workers join again. The push of each must be accepted, whatever came before.
  void Renew(Counts* counts) {
    const uint64_t start = shard_.core().FastestClock() + 1;
    for (uint32_t w = 0; w < kShardWorkers; ++w) {
      shard_.Execute(RemoveWorker{SmallShard::Key(w, workers_[w].incarnation)});
      workers_[w] = {workers_[w].incarnation + 1, 1, start};
      shard_.Execute(AdmitWorker{SmallShard::Key(w, workers_[w].incarnation)});
    }
    TakeCheckpoint none;  // releases pushes that an earlier checkpoint held back
    none.id = ++cut_;
    if (cuts_) shard_.Execute(none);
    shard_.BeginSegmentAt(start);
    shard_.TakeOut();
    RandomStream random(MakeKey(2, RandomPurpose::kSynthetic), start);
    for (uint32_t w = 0; w < kShardWorkers; ++w) {
      const uint64_t before = counts->proper;
      Send(PushOf(w, &random), /*changed=*/false, counts);
      Require(counts->proper == before + 1, "a proper push of a new worker was refused");
    }
  }

  void Cut(RandomStream* random) {
    TakeCheckpoint take;
    take.id = ++cut_;
    take.clock = shard_.core().FastestClock() + random->NextBelow(3);
    for (uint32_t w = 0; w < kShardWorkers; ++w) {
      take.savers.push_back(SmallShard::Key(w, workers_[w].incarnation));
    }
    shard_.Execute(take);
    shard_.TakeOut();
  }

  const bool cuts_;
  const bool synchronous_;
  const Payloads& payloads_;
  SmallShard shard_;
  std::array<Worker, kShardWorkers> workers_;
  uint64_t request_ = 0;
  uint64_t cut_ = 0;
};

void Run(uint64_t messages) {
  const Payloads payloads;
  Counts counts;
  const std::pair<const char*, bool> kinds[] = {
      {"async", false}, {"unbounded", false}, {"sync", false}, {"async", true}, {"sync", true}};
  for (size_t k = 0; k < std::size(kinds); ++k) {
    Traffic traffic(kinds[k].first, kinds[k].second, payloads);
    RandomStream random(MakeKey(1, RandomPurpose::kSynthetic), k);
    for (uint64_t i = 0; i < messages / std::size(kinds); ++i) traffic.Step(&random, &counts);
  }
  std::printf("%llu damaged on the wire, %llu pushes accepted changed and %llu unchanged, refused:",
              static_cast<unsigned long long>(counts.damaged),
              static_cast<unsigned long long>(counts.accepted),
              static_cast<unsigned long long>(counts.proper));
  for (const auto& [reason, count] : counts.refused) {
    std::printf(" %s %llu", reason.c_str(), static_cast<unsigned long long>(count));
  }
  std::printf("\n");
  // With fewer messages of each kind the test would show little.
  Require(counts.damaged > messages / 10 && counts.accepted > messages / 1000 &&
              counts.proper > messages / 1000 && counts.refused["MALFORMED"] > messages / 1000 &&
              counts.refused["OUT_OF_ORDER"] > 0 && counts.refused["NON_FINITE"] > 0,
          "too few messages got anywhere");
}

}  // namespace
}  // namespace psgd::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: mutated_messages COUNT\n");
    return 2;
  }
  psgd::fuzz::Run(std::stoull(argv[1]));
  return 0;
}
