// The codecs, twins and tensors that the conformance suite runs over.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/philox.h"
#include "compression/codec.h"

namespace psgd::codec_test {

// A codec with the options that reach its corners.
struct CodecCase {
  std::string name;
  CodecConfig config;
  // What it sent and what it keeps add up, to the bit, to what it was given, for integers.
  bool conserves = true;
};
std::vector<CodecCase> AllCases();
// For messages of gtest.
void PrintTo(const CodecCase& codec, std::ostream* out);

// One way to run the inner loops: the scalar twin, or the SIMD twin on one instruction set.
struct Twin {
  std::string name;
  CodecBackend backend = CodecBackend::kScalar;
  int64_t target = 0;  // of Highway; 0: the best there is
};
// The scalar twin first, then every instruction set of this machine.
std::vector<Twin> AllTwins();

// Makes SIMD loops run on a twin's instruction set while it lives. Not thread-safe.
class UseTwin {
 public:
  explicit UseTwin(const Twin& twin);
  ~UseTwin();
  UseTwin(const UseTwin&) = delete;
  UseTwin& operator=(const UseTwin&) = delete;
};

std::unique_ptr<Codec> Make(const CodecCase& codec, CodecBackend backend);
// A slice that begins and ends within rows of its tensor.
SliceShape ShapeOf(size_t elements);

// What one encoder made of a few steps.
struct Encoded {
  std::vector<std::vector<std::byte>> payloads;
  std::vector<float> residual;  // after the last step; empty if none was kept
};
Encoded EncodeSteps(const Codec& codec, const std::vector<std::vector<float>>& gradients,
                    bool keep_residual, uint64_t seed);

// A payload's values, through AddBlock in blocks of `block` elements.
std::vector<float> Decode(const Codec& codec, ByteSpan payload, size_t elements,
                          size_t block = 4096);

// A tensor of a kind chosen by the stream: Gaussian of some scale, small integers, mostly zeros,
// subnormals, all equal, one huge value among small ones, anything finite.
std::vector<float> RandomTensor(size_t elements, RandomStream* stream);
// A length worth trying: 0, 1, primes, the neighbours of block and group sizes.
size_t RandomLength(RandomStream* stream);

}  // namespace psgd::codec_test
