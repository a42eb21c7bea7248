// Writes the corpus of codec_fuzz: payloads of every codec.
//   make_codec_corpus tests/fuzz/corpus/codec
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "compression/low_rank/factors_payload.h"
#include "tests/fuzz/codec_input.h"

namespace psgd::fuzz {
namespace {

// Encodes two steps of a gradient with large and small elements, so that sparse codecs choose
// between both.
std::vector<std::byte> SecondPayload(const Codec& codec, const SliceShape& shape) {
  RandomStream random(MakeKey(shape.elements, RandomPurpose::kSynthetic), 1);
  const auto encoder = codec.NewEncoder(shape);
  std::vector<float> gradient(shape.elements),
      residual(codec.keeps_residual() ? shape.elements : 0);
  std::vector<std::byte> payload;
  for (uint64_t step = 0; step < 2; ++step) {
    for (float& g : gradient) {
      g = (random.NextUnit() - 0.5f) * (random.NextBelow(16) == 0 ? 1.0f : 0.01f);
    }
    payload.clear();
    encoder->Encode({gradient, residual, MakeKey(1, RandomPurpose::kCodec), step}, &payload);
  }
  return payload;
}

void Write(const std::filesystem::path& path, const uint8_t (&header)[kCodecHeader],
           const std::vector<std::byte>& payload) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(header), sizeof header);
  file.write(reinterpret_cast<const char*>(payload.data()),
             static_cast<std::streamsize>(payload.size()));
}

// Factors need more than a gradient, so they get their own function.
void WriteFactors(const std::filesystem::path& path, ValueCoding coding, uint8_t slices = 1) {
  const uint8_t header[kCodecHeader] = {65, 1, 12, 17, static_cast<uint8_t>(slices - 1)};
  const std::vector<SliceShape> shapes = ShapesOfInput(header);
  RandomStream random(MakeKey(2, RandomPurpose::kSynthetic), 1);
  constexpr uint64_t kBatch = 3;
  std::vector<float> factors(kBatch * (shapes[0].tensor_columns + shapes[0].tensor_rows));
  for (float& factor : factors) factor = random.NextBelow(3) == 0 ? 0 : random.NextUnit() - 0.5f;
  FactorsEncoder encoder(KernelsFor(CodecBackend::kSimd), coding);
  encoder.Begin(factors, kBatch, shapes[0].tensor_columns);
  std::vector<std::byte> payload;
  encoder.Encode(shapes, &payload);
  Write(path, header, payload);
}

// Short slices have one chunk and few values at the defaults.
void WriteSmallChunks(const std::filesystem::path& path) {
  const uint8_t header[kCodecHeader] = {200, 0, 12, 17, 0};
  CodecConfig config;
  config.mutable_chunked()->set_chunk(64);
  config.mutable_chunked()->set_keep(20);
  config.mutable_chunked()->set_bits(5);
  Write(path, header, SecondPayload(*MakeCodec(config).value(), ShapesOfInput(header)[0]));
}

void WriteCorpus(const std::filesystem::path& folder) {
  WriteFactors(folder / "factors" / "three.bin", ValueCoding::kFloat);
  WriteFactors(folder / "factors" / "half.bin", ValueCoding::kHalf);
  WriteFactors(folder / "factors" / "byte.bin", ValueCoding::kByte);
  WriteFactors(folder / "factors" / "two_slices.bin", ValueCoding::kFloat, 2);
  WriteFactors(folder / "factors" / "four_slices.bin", ValueCoding::kByte, 4);
  WriteSmallChunks(folder / "chunked" / "small_chunks.bin");
  for (const CodecConfig& config : DefaultCodecs()) {
    const auto codec = MakeCodec(config).value();
    for (const uint16_t elements : {0, 1, 65, 321}) {
      const uint8_t header[kCodecHeader] = {static_cast<uint8_t>(elements & 0xFF),
                                            static_cast<uint8_t>(elements >> 8), 12, 17, 0};
      Write(folder / std::string(codec->name()) / absl::StrCat(elements, ".bin"), header,
            SecondPayload(*codec, ShapesOfInput(header)[0]));
    }
  }
}

}  // namespace
}  // namespace psgd::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_codec_corpus FOLDER\n");
    return 2;
  }
  psgd::fuzz::WriteCorpus(argv[1]);
  return 0;
}
