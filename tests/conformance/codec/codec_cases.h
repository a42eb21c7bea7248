// The codecs, twins and tensors that the conformance suite runs over.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/philox.h"
#include "compression/codec.h"

namespace psgd::codec_test {

// A codec with options that reach its corner cases.
struct CodecCase {
  std::string name;
  CodecConfig config;
  // For integers, what is sent and the residual add up to the input, to the bit.
  bool conserves = true;
};
std::vector<CodecCase> AllCases();
// For gtest messages.
void PrintTo(const CodecCase& codec, std::ostream* out);

// One way to run the inner loops: the scalar twin, or the SIMD twin on one instruction set.
struct Twin {
  std::string name;
  CodecBackend backend = CodecBackend::kScalar;
  int64_t target = 0;  // of Highway; 0: the best of this machine
};
// The scalar twin first, then every instruction set of this machine.
std::vector<Twin> AllTwins();

// Makes SIMD loops use a twin's instruction set during its lifetime. Not thread-safe.
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

// The results of one encoder over a few steps.
struct Encoded {
  std::vector<std::vector<std::byte>> payloads;
  std::vector<float> residual;  // after the last step; empty if none was kept
};
Encoded EncodeSteps(const Codec& codec, const std::vector<std::vector<float>>& gradients,
                    bool keep_residual, uint64_t seed);

// Decodes a payload's values through AddBlock, in blocks of `block` elements.
std::vector<float> Decode(const Codec& codec, ByteSpan payload, size_t elements,
                          size_t block = 4096);

// Returns a tensor of a kind that the stream chooses: Gaussian of some scale, small integers,
// mostly zeros, subnormals, all equal, one huge value among small ones, or any finite values.
std::vector<float> RandomTensor(size_t elements, RandomStream* stream);
// Returns an interesting length: 0, 1, primes, and the neighbors of block and group sizes.
size_t RandomLength(RandomStream* stream);

}  // namespace psgd::codec_test
