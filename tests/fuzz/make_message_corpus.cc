// Writes the corpora of targets that read messages and checkpoints.
//   make_message_corpus tests/fuzz/corpus
#include <optional>
#include <vector>

#include "net/wire_format.h"
#include "server/durability/checkpoint_format.h"
#include "server/durability/journal_format.h"
#include "server/durability/stored_value.h"
#include "tests/fuzz/corpus_file.h"
#include "tests/fuzz/small_shard.h"

namespace psgd::fuzz {
namespace {

using std::filesystem::path;

struct Parts {
  std::string header;
  std::string body;
};

Parts PartsOf(const Message& message) {
  Message sized = message;
  Parts parts;
  for (const Bytes& payload : message.payloads) {
    sized.header.add_payload_sizes(static_cast<uint32_t>(payload.size()));
    parts.body.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  parts.header = sized.header.SerializeAsString();
  return parts;
}

// Returns a record of shard_fuzz and session_fuzz.
std::string Record(uint8_t kind, const Message& message) {
  const Parts parts = PartsOf(message);
  return NumberBytes(kind) + NumberBytes(static_cast<uint8_t>(parts.header.size())) +
         NumberBytes(static_cast<uint8_t>(parts.body.size())) + parts.header + parts.body;
}
std::string Command(uint8_t kind, uint8_t argument) {
  return NumberBytes(kind) + NumberBytes(argument);
}

Message From(uint32_t worker) {
  Message message;
  message.header.set_worker(worker);
  message.header.set_incarnation(1);
  return message;
}

SliceShape ShapeOfSlice(uint32_t slice) {
  SliceShape shape;
  shape.elements = kSliceElements[slice];
  shape.tensor_rows = slice < 2 ? kMatrixRows : kSliceElements[slice];
  shape.tensor_columns = slice < 2 ? kMatrixColumns : 1;
  shape.offset = slice == 1 ? kSliceElements[0] : 0;
  return shape;
}

Bytes PayloadOf(const Codec& codec, uint32_t slice, uint64_t step) {
  const SliceShape shape = ShapeOfSlice(slice);
  const auto encoder = codec.NewEncoder(shape);
  std::vector<float> gradient(shape.elements),
      residual(codec.keeps_residual() ? shape.elements : 0);
  for (uint32_t i = 0; i < shape.elements; ++i) gradient[i] = 0.01f * static_cast<float>(i + step);
  std::vector<std::byte> payload;
  encoder->Encode({gradient, residual, MakeKey(1, RandomPurpose::kCodec), step}, &payload);
  return Bytes::Adopt(std::move(payload));
}

Message PushOf(const Codec& codec, uint32_t worker, uint64_t seq, uint64_t clock,
               const std::vector<uint32_t>& slices) {
  Message message = From(worker);
  Push* push = message.header.mutable_push();
  push->set_seq(seq);
  push->set_clock(clock);
  push->set_end_of_clock(true);
  for (const uint32_t slice : slices) {
    PushPart* part = push->add_parts();
    part->set_slice(slice);
    part->set_codec(codec.id());
    message.payloads.push_back(PayloadOf(codec, slice, clock));
  }
  return message;
}

// Packs every payload that gets shorter.
Message Packed(Message push) {
  LosslessConfig config;
  config.mutable_zstd();
  const auto packer = Packer::Make(config);
  for (size_t i = 0; i < push.payloads.size(); ++i) {
    const PackedPayload packed = packer->PackIn(4, push.payloads[i].span());
    if (packed.planes == 0) continue;
    push.header.mutable_push()->mutable_parts(static_cast<int>(i))->set_zstd(packed.planes);
    push.payloads[i] = packed.frame;
  }
  return push;
}

Message PullOf(uint32_t worker, uint64_t request, uint64_t clock, bool marks) {
  Message message = From(worker);
  Pull* pull = message.header.mutable_pull();
  pull->set_request(request);
  pull->set_clock(clock);
  for (size_t i = 0; marks && i < std::size(kSliceElements); ++i) pull->add_marks(1);
  return message;
}

Message SaveOf(uint32_t worker, uint64_t seq, uint64_t checkpoint) {
  Message message = From(worker);
  SaveState* save = message.header.mutable_save_state();
  save->set_seq(seq);
  save->set_checkpoint(checkpoint);
  save->set_last(true);
  save->add_slices(2);
  message.payloads.push_back(Bytes::CopyOf(AsBytes(std::vector<float>(kSliceElements[2], 0.5f))));
  return message;
}

Message Hello(uint32_t worker) {
  Message message = From(worker);
  message.header.mutable_hello()->set_probe(7);
  return message;
}

void WriteShard(const path& folder, const Codec& none) {
  // Each worker pushes and pulls, twice.
  std::string steps = Record(0, Hello(0));
  for (const uint64_t clock : {1, 2}) {
    for (uint32_t worker = 0; worker < kShardWorkers; ++worker) {
      steps += Record(0, PushOf(none, worker, clock, clock, {2, 3}));
      steps += Record(0, PullOf(worker, clock, clock, clock > 1));
    }
  }
  // A checkpoint between two clocks, with a push that waits for it.
  std::string cut;
  for (uint32_t worker = 0; worker < kShardWorkers; ++worker) {
    cut += Record(0, PushOf(none, worker, 1, 1, {3}));
  }
  cut += Command(201, 16 + 1) + Record(0, SaveOf(0, 2, 2)) + Record(0, PushOf(none, 0, 3, 2, {2}));
  cut += Record(0, SaveOf(1, 2, 2)) + Record(0, SaveOf(2, 2, 2));
  // One worker is replaced and another leaves.
  const std::string change = Record(0, PushOf(none, 1, 1, 1, {2})) + Command(203, 64 + 1) +
                             Command(200, 1) + Command(202, 2) + Record(0, PullOf(0, 1, 0, false));
  for (const char* kind : {"sync", "async", "unbounded"}) {
    WriteCorpusFile(folder / kind / "steps.bin", steps);
    WriteCorpusFile(folder / kind / "cut.bin", cut);
    WriteCorpusFile(folder / kind / "change.bin", change);
  }
  WriteCorpusFile(folder / "async" / "packed.bin",
                  Record(0, Packed(PushOf(none, 0, 1, 1, {0, 1}))));
  for (const CodecConfig& config : DefaultCodecs()) {
    const auto codec = MakeCodec(config).value();
    WriteCorpusFile(folder / "async" / (std::string(codec->name()) + ".bin"),
                    Record(0, PushOf(*codec, 0, 1, 1, {0, 2})) + Record(0, PullOf(0, 1, 1, true)));
  }
}

// Inputs of lossless_fuzz: planes, most bytes, and the bytes.
void WriteLossless(const path& folder) {
  LosslessConfig config;
  config.mutable_zstd();
  const auto packer = Packer::Make(config);
  std::vector<float> values(200);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 50);
  for (const uint32_t planes : {1, 2, 4}) {
    const PackedPayload packed = packer->PackIn(planes, AsBytes(values));
    const auto* frame = reinterpret_cast<const char*>(packed.frame.data());
    WriteCorpusFile(folder / "zstd" / (std::to_string(planes) + ".bin"),
                    NumberBytes(static_cast<uint8_t>(packed.planes)) + NumberBytes(uint16_t{1000}) +
                        std::string(frame, packed.frame.size()));
  }
}

void WriteWire(const path& folder, const Codec& none) {
  const Message messages[] = {Hello(1), PushOf(none, 1, 1, 1, {0, 1, 2}), PullOf(1, 1, 0, true),
                              SaveOf(1, 1, 1)};
  int number = 0;
  for (const Message& message : messages) {
    const EncodedMessage encoded = EncodeMessage(message, 1u << 20).value();
    std::string bytes = NumberBytes(uint16_t{40});
    for (const Bytes& frame : encoded.frames) {
      bytes.append(reinterpret_cast<const char*>(frame.data()), frame.size());
    }
    WriteCorpusFile(folder / "message" / (std::to_string(number++) + ".bin"), bytes);
  }
}

// The answer of a shard with slices 0 and 1, or 2 and 3, to worker 1.
Message PullReplyOf(uint32_t shard, uint64_t request, const Codec& codec, PullPart::Form form) {
  Message message = From(1);
  message.header.set_shard(shard);
  PullReply* reply = message.header.mutable_pull_reply();
  reply->set_request(request);
  reply->set_last(true);
  for (const uint32_t slice : {2 * shard, 2 * shard + 1}) {
    PullPart* part = reply->add_parts();
    part->set_slice(slice);
    part->set_codec(codec.id());
    part->set_version(3);
    part->set_form(form);
    part->set_mark(1);
    message.payloads.push_back(PayloadOf(codec, slice, 1));
  }
  return message;
}

void WriteSession(const path& folder, const CodecTable& codecs) {
  const Codec &none = *codecs.Find(CODEC_NONE), &topk = *codecs.Find(CODEC_TOPK);
  const auto ack = [](uint64_t next) {
    Message message = From(1);
    message.header.mutable_push_ack()->set_next_seq(next);
    return message;
  };
  const auto refusal = [](Refusal::Reason reason) {
    Message message = From(1);
    message.header.mutable_refusal()->set_reason(reason);
    message.header.mutable_refusal()->set_next_seq(2);
    return message;
  };
  Message state = From(1), welcome = From(1);
  state.header.mutable_state_reply()->set_request(1);
  state.header.mutable_state_reply()->set_total(1);
  state.header.mutable_state_reply()->add_slices(2);
  state.payloads.push_back(Bytes::CopyOf(AsBytes(std::vector<float>(kSliceElements[2]))));
  welcome.header.mutable_welcome()->set_next_seq(2);
  welcome.header.mutable_welcome()->set_probe(1);
  // kind % 6 is the worker's action: 204 pulls, 205 pushes, 206 saves, 207 loads, 208 probes.
  const std::string pull = Command(204, 0).substr(0, 1), push = Command(205, 0).substr(0, 1);
  WriteCorpusFile(folder / "whole.bin", pull + Record(0, PullReplyOf(0, 1, none, PullPart::WHOLE)) +
                                            Record(1, PullReplyOf(1, 1, none, PullPart::WHOLE)));
  WriteCorpusFile(folder / "changed.bin",
                  pull + Record(0, PullReplyOf(0, 1, topk, PullPart::CHANGED)) +
                      Record(1, PullReplyOf(1, 1, none, PullPart::DIFFERENCE)));
  WriteCorpusFile(folder / "updates.bin",
                  pull + Record(0, PullReplyOf(0, 1, none, PullPart::UPDATES)) +
                      Record(1, PullReplyOf(1, 1, none, PullPart::WHOLE)));
  WriteCorpusFile(folder / "pushes.bin", push + push + Record(0, ack(2)) + Record(1, ack(3)) +
                                             Record(0, refusal(Refusal::OUT_OF_ORDER)) +
                                             Record(0, refusal(Refusal::OVERLOADED)) +
                                             Record(0, refusal(Refusal::NON_FINITE)));
  WriteCorpusFile(folder / "state.bin",
                  std::string("\xCF") + Record(0, state) + "\xCE" + Record(0, ack(3)));
  WriteCorpusFile(folder / "probe.bin",
                  std::string("\xD0") + Record(0, welcome) + Record(1, welcome));
}

void WriteCheckpoint(const path& folder) {
  CheckpointManifest manifest;
  manifest.set_id(1);
  manifest.mutable_config()->set_name("small");
  *manifest.mutable_model() = SmallModel();
  *manifest.mutable_placement() = SmallPlacement();
  manifest.add_shards()->add_files()->set_name("CURRENT");
  manifest.add_remaining()->set_count(3);
  const std::string message = manifest.SerializeAsString();
  WriteCorpusFile(folder / "manifest" / "small.bin", message);
  std::string rows = WithLength<uint16_t>(message);
  const auto add = [&](ValueKind kind, uint32_t first, uint32_t second,
                       const std::string& contents) {
    rows += NumberBytes(uint8_t{0}) + NumberBytes(kind) + NumberBytes(static_cast<uint8_t>(first)) +
            NumberBytes(static_cast<uint8_t>(second)) + WithLength<uint16_t>(contents);
  };
  for (uint32_t slice = 0; slice < std::size(kSliceElements); ++slice) {
    SliceRecord record;
    *record.mutable_spec() = manifest.placement().slices(static_cast<int>(slice));
    record.set_parameter(
        manifest.model().parameters(static_cast<int>(record.spec().parameter())).name());
    record.add_states("momentum_buffer");
    add(ValueKind::kSlice, slice, 0, record.SerializeAsString());
  }
  for (const ValueKind kind : {ValueKind::kWeights, ValueKind::kState}) {
    for (uint32_t slice = 0; slice < std::size(kSliceElements); ++slice) {
      add(kind, slice, 0, std::string(kSliceElements[slice] * sizeof(float), '\1'));
    }
  }
  // A residual with its codec's state: compression/saved_state.h.
  add(ValueKind::kResidual, 1, 2, std::string((2 * kSliceElements[2] + 1) * sizeof(float), '\2'));
  WriteCorpusFile(folder / "values" / "small.bin", rows);
}

// Inputs of journal_fuzz.
void WriteJournal(const path& folder, const Codec& none) {
  SmallShard shard(SmallConfig("async"), /*journal=*/true);
  shard.Send(PushOf(none, 0, 1, 1, {0, 2}));
  shard.Send(PushOf(none, 1, 1, 1, {2, 3}));
  shard.Send(PullOf(0, 1, 1, true));
  TakeCheckpoint take;
  take.id = 1;
  take.clock = 1;
  take.savers.push_back(SmallShard::Key(0));
  shard.Execute(take);
  shard.Send(SaveOf(0, 2, 1));
  ChangeHyper change;
  change.hyper.set_learning_rate(0.2);
  shard.Execute(change);
  shard.Execute(RemoveWorker{SmallShard::Key(2)});
  std::string steps;
  uint64_t number = 0;
  for (const JournalEntry& entry : shard.core().TakeJournal()) {
    std::string value;
    EncodeEntry(EncodeJournalKey(JournalKind::kEntry, ++number), entry, &value);
    // journal_fuzz starts with a shard after the first steps: three workers joined and a segment
    // began.
    if (number > kShardWorkers + 1) steps += WithLength<uint16_t>(value.substr(kStoredPrefixSize));
  }
  WriteCorpusFile(folder / "steps" / "some.bin", steps);
  WriteCorpusFile(folder / "image" / "some.bin",
                  WithLength<uint16_t>(shard.core().MakeImage().record.SerializeAsString()));
}

// Inputs of control_fuzz: two workers train, one leaves, the run is drained.
void WriteControl(const path& folder) {
  std::string rows;
  const auto call = [&](uint8_t kind, const google::protobuf::Message& request) {
    rows += NumberBytes(kind) + WithLength<uint16_t>(request.SerializeAsString());
  };
  const auto as = [](uint32_t worker, auto request) {
    request.mutable_key()->set_worker(worker);
    request.mutable_key()->set_incarnation(1);
    return request;
  };
  for (const uint32_t worker : {0, 1}) {
    JoinRequest join;
    join.set_name("host-17");
    join.set_attempt(worker + 5);
    call(0, join);
    RegisterRequest registration = as(worker, RegisterRequest());
    *registration.mutable_model() = SmallModel();
    registration.set_batches_per_epoch(10);
    registration.set_train_samples(100);
    call(1, registration);
  }
  const auto next = [&](uint32_t worker, uint64_t finished, bool done) {
    NextSegmentRequest request = as(worker, NextSegmentRequest());
    request.set_first(finished == 0);
    request.set_finished_segment(finished);
    call(done ? 132 : 2, request);
  };
  for (const uint64_t finished : {0, 1, 2}) {
    next(0, finished, false);
    next(1, finished, finished == 2);
    HeartbeatRequest beat = as(1, HeartbeatRequest());
    beat.set_number(finished + 1);
    beat.mutable_report()->set_clock(4 * finished);
    beat.mutable_report()->set_samples(160);
    call(4, beat);
  }
  EvaluatedRequest evaluated = as(0, EvaluatedRequest());
  evaluated.mutable_result()->set_epoch(1);
  evaluated.mutable_result()->set_accuracy(0.5);
  call(3, evaluated);
  SetHyperRequest hyper;
  hyper.mutable_hyper()->set_learning_rate(0.05);
  hyper.set_set_learning_rate(true);
  call(7, hyper);
  LeaveRequest leave = as(1, LeaveRequest());
  leave.set_reason("a notice");
  call(5, leave);
  call(8, CheckpointRequest());
  next(0, 3, true);
  call(6, DrainRequest());
  next(0, 4, true);
  WriteCorpusFile(folder / "calls" / "run.bin", rows);
}

// Likewise, with a model that the first of two workers brings.
void WriteControlBrought(const path& folder) {
  std::string rows;
  const auto call = [&](uint8_t kind, auto request, std::optional<uint32_t> worker) {
    if constexpr (requires { request.mutable_key(); }) {
      request.mutable_key()->set_worker(*worker);
      request.mutable_key()->set_incarnation(1);
    }
    rows += NumberBytes(kind) + WithLength<uint16_t>(request.SerializeAsString());
  };
  const std::vector<float> first(6, 0.5f);
  RegisterRequest registration;
  ParameterSpec* parameter = registration.mutable_model()->add_parameters();
  parameter->set_name("w");
  parameter->add_shape(6);
  parameter->mutable_initializer()->mutable_given()->set_checksum(ChecksumOf(AsBytes(first)));
  registration.set_batches_per_epoch(10);
  registration.set_train_samples(100);
  registration.set_epochs(2);
  for (const uint32_t worker : {0, 1}) {
    JoinRequest join;
    join.set_name("host-17");
    call(0, join, std::nullopt);
    call(1, registration, worker);
  }
  for (const uint64_t offset : {0, 4}) {
    GiveWeightsRequest part;
    part.set_offset(offset);
    part.set_values(first.data(), (offset == 0 ? 4 : 2) * sizeof(float));
    call(11, part, 0);
  }
  for (const uint32_t worker : {0, 1}) call(1, registration, worker);
  NextSegmentRequest next;
  next.set_first(true);
  for (const uint32_t worker : {0, 1}) call(2, next, worker);
  EvaluatedRequest evaluated;
  evaluated.mutable_result()->set_epoch(1);
  call(3, evaluated, 0);
  call(6, DrainRequest(), std::nullopt);
  WriteCorpusFile(folder / "brought" / "run.bin", rows);
}

void WriteCorpus(const path& folder) {
  const CodecTable codecs;
  const Codec& none = *codecs.Find(CODEC_NONE);
  WriteShard(folder / "shard", none);
  WriteLossless(folder / "lossless");
  WriteWire(folder / "wire", none);
  WriteSession(folder / "session" / "answers", codecs);
  WriteCheckpoint(folder / "checkpoint");
  WriteJournal(folder / "journal", none);
  WriteControl(folder / "control");
  WriteControlBrought(folder / "control");
}

}  // namespace
}  // namespace psgd::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_message_corpus FOLDER\n");
    return 2;
  }
  psgd::fuzz::WriteCorpus(argv[1]);
  return 0;
}
