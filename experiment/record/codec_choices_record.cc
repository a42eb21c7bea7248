#include "experiment/record/codec_choices_record.h"

namespace psgd {
namespace {

std::string TextIn(const Record& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

// Visits the objects of a list; visits nothing if there is no list.
template <typename Body>
void ForEachIn(const Record& record, const char* key, Body body) {
  const auto list = record.find(key);
  if (list == record.end() || !list->is_array()) return;
  for (const Record& item : *list) body(item);
}

}  // namespace

Record CodecChoicesRecord(const CodecChoices& choices) {
  Record tensors = Record::array();
  for (const CodecChoices::Tensor& tensor : choices.tensors()) {
    Record candidates = Record::array();
    for (const CodecChoices::Candidate& candidate : tensor.candidates()) {
      candidates.push_back({{"codec", candidate.codec()},
                            {"bytes", candidate.bytes()},
                            {"seconds_encode", candidate.seconds_encode()},
                            {"seconds_send", candidate.seconds_send()},
                            {"seconds_decode", candidate.seconds_decode()}});
    }
    tensors.push_back({{"parameter", tensor.parameter()},
                       {"codec", ChosenCodec(tensor)},
                       {"candidates", std::move(candidates)}});
  }
  return {{"worker", choices.worker()},
          {"clock", choices.clock()},
          {"bytes_per_second", choices.bytes_per_second()},
          {"seconds_round_trip", choices.seconds_round_trip()},
          {"tensors", std::move(tensors)}};
}

CodecChoices CodecChoicesOf(const Record& record) {
  CodecChoices choices;
  choices.set_worker(static_cast<uint32_t>(NumberIn(record, "worker")));
  choices.set_clock(static_cast<uint64_t>(NumberIn(record, "clock")));
  choices.set_bytes_per_second(NumberIn(record, "bytes_per_second"));
  choices.set_seconds_round_trip(NumberIn(record, "seconds_round_trip"));
  ForEachIn(record, "tensors", [&](const Record& from) {
    CodecChoices::Tensor* tensor = choices.add_tensors();
    tensor->set_parameter(TextIn(from, "parameter"));
    const std::string chosen = TextIn(from, "codec");
    ForEachIn(from, "candidates", [&](const Record& item) {
      CodecChoices::Candidate* candidate = tensor->add_candidates();
      candidate->set_codec(TextIn(item, "codec"));
      candidate->set_bytes(static_cast<uint64_t>(NumberIn(item, "bytes")));
      candidate->set_seconds_encode(NumberIn(item, "seconds_encode"));
      candidate->set_seconds_send(NumberIn(item, "seconds_send"));
      candidate->set_seconds_decode(NumberIn(item, "seconds_decode"));
      if (candidate->codec() == chosen) tensor->set_chosen(tensor->candidates_size() - 1);
    });
  });
  return choices;
}

std::map<std::string, std::string> ChosenCodecs(const CodecChoices& choices) {
  std::map<std::string, std::string> codecs;
  for (const CodecChoices::Tensor& tensor : choices.tensors()) {
    codecs[tensor.parameter()] = ChosenCodec(tensor);
  }
  return codecs;
}

std::string ChosenCodec(const CodecChoices::Tensor& tensor) {
  if (tensor.chosen() >= static_cast<uint32_t>(tensor.candidates_size())) return "";
  return tensor.candidates(static_cast<int>(tensor.chosen())).codec();
}

}  // namespace psgd
