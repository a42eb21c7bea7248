// Any bytes as a payload: the decoder refuses them, or returns finite values in range. --codec=NAME
// chooses the decoder.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/fuzz/codec_input.h"
#include "tests/fuzz/fuzz.h"

namespace psgd::fuzz {
namespace {

const Codec* chosen = nullptr;

void ReadBlocks(PayloadReader* reader, const SliceShape& shape) {
  Require(reader->elements() == shape.elements, "the reader has another length than the slice");
  std::vector<float> values(shape.elements);
  constexpr size_t kBlock = 37;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, values.size() - begin);
    reader->AddBlock(1, std::span(values).subspan(begin, count));
  }
  const float largest = reader->Largest();
  for (float value : values) {
    Require(std::isfinite(value), "a value is not finite");
    Require(std::abs(value) <= largest, "a value is larger than the largest");
  }
}

void ReadEntries(PayloadReader* reader, const SliceShape& shape) {
  if (!reader->sparse()) return;
  std::vector<uint32_t> indices(11);
  std::vector<float> values(11);
  int64_t last = -1;
  while (const size_t count = reader->NextEntries(indices, values)) {
    for (size_t i = 0; i < count; ++i) {
      Require(indices[i] < shape.elements, "an index is out of range");
      Require(static_cast<int64_t>(indices[i]) > last, "indices do not ascend");
      Require(std::isfinite(values[i]), "an entry is not finite");
      Require(std::abs(values[i]) <= reader->Largest(), "an entry is larger than the largest");
      last = indices[i];
    }
  }
}

}  // namespace
}  // namespace psgd::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static const psgd::CodecTable* const table = new psgd::CodecTable();
  const std::string name = psgd::fuzz::Variant("codec", *argc, *argv);
  for (int id = 0; id < 256; ++id) {
    const psgd::Codec* codec = table->Find(static_cast<psgd::CodecId>(id));
    if (codec != nullptr && codec->name() == name) psgd::fuzz::chosen = codec;
  }
  psgd::fuzz::Require(psgd::fuzz::chosen != nullptr, "say which codec, as --codec=topk");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace psgd::fuzz;
  if (size < kCodecHeader) return 0;
  const std::vector<psgd::SliceShape> shapes = ShapesOfInput(data);
  const psgd::ByteSpan payload = std::as_bytes(std::span(data + kCodecHeader, size - kCodecHeader));
  const auto opened = chosen->OpenShared(payload, shapes);
  if (!opened.ok()) {
    Require(!opened.status().message().empty(), "it was refused without a reason");
    return 0;
  }
  Require(payload.size() <= chosen->MaxSharedPayload(shapes), "the payload is longer than any");
  Require(opened->size() == shapes.size(), "there are more or fewer readers than slices");
  const auto again = chosen->OpenShared(payload, shapes).value();
  for (size_t i = 0; i < shapes.size(); ++i) {
    ReadBlocks((*opened)[i].get(), shapes[i]);
    ReadEntries(again[i].get(), shapes[i]);
  }
  return 0;
}
