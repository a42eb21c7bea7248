// How an update travels: the one interface of all codecs.
//
// Worker side: an Encoder turns the gradient of one slice (plus the residual of earlier steps) into
// payload bytes and leaves in the residual what the payload does not carry.
// Shard side: a Codec opens a payload, checking every byte against the registered slice, and the
// PayloadReader then hands out values block by block, so that they go straight into the optimizer
// and no dense gradient is ever materialised. A codec that is not in the wire's CodecId cannot be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/bytes.h"
#include "common/philox.h"
#include "common/status.h"
#include "proto/config.pb.h"
#include "proto/data.pb.h"

namespace psgd {

// What a codec may know of the slice: matrix codecs need its place in the tensor.
struct SliceShape {
  uint32_t elements = 0;
  // The tensor seen as a matrix: rows = first dimension, columns = product of the others.
  uint64_t tensor_rows = 0;
  uint64_t tensor_columns = 0;
  uint64_t offset = 0;  // of the slice in the tensor
};

struct EncodeInput {
  std::span<const float> gradient;
  // Added to the gradient before coding; afterwards what the payload left out. Empty: what is left
  // out is dropped. Otherwise as long as the gradient.
  std::span<float> residual;
  // Stochastic codecs draw Philox(key, element / 4, step), word element % 4, for each element of
  // the slice counted from 0: the key must tell slices and workers apart.
  PhiloxKey key;
  uint64_t step = 0;
};

// Encodes one slice of one worker, step after step. May keep state between steps. Not thread-safe.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the payload to `out`.
  // REQUIRES: gradient.size() == the slice's elements; values finite. (Of others the residual is as
  // spoilt as the gradient; a payload that cannot carry them is one that Open refuses.)
  virtual void Encode(const EncodeInput& input, std::vector<std::byte>* out) = 0;

  // What it remembers beside the residual goes into checkpoints as whole arrays of the slice's
  // length, so that a slice that is cut anew takes its part of each along.
  // REQUIRES: arrays.size() == Codec::state_arrays() * the slice's elements, zeros for SaveState.
  virtual void SaveState(std::span<float> arrays) const {}
  // Anything finite is taken: after a cut, it need not be what was saved.
  virtual void LoadState(std::span<const float> arrays) {}
};

// One checked payload, read from front to back. Reads cannot fail: Open has seen every byte.
// Not thread-safe. The payload's bytes must outlive it.
class PayloadReader {
 public:
  virtual ~PayloadReader() = default;
  // Elements of the slice.
  uint32_t elements() const { return elements_; }
  // block[i] += scale * value[position + i]; then moves on by block.size().
  // REQUIRES: no more elements are asked for than are left.
  virtual void AddBlock(float scale, std::span<float> block) = 0;
  // No value is larger in magnitude. Costs a look at the payload's numbers; may be asked at any
  // time.
  virtual float Largest() const = 0;
  // Dense fp32 payloads: the values themselves, so that a caller may skip the copy. Else empty.
  virtual std::span<const float> Direct() const { return {}; }
  // Sparse payloads: how many entries there are; a caller may then use NextEntries instead of
  // AddBlock (not both).
  virtual bool sparse() const { return false; }
  // Fills the next (index, value) pairs, indices ascending; returns how many, 0 at the end.
  virtual size_t NextEntries(std::span<uint32_t> indices, std::span<float> values) { return 0; }
  // The worker could not add the weight decay to it, so the shard does.
  virtual bool without_decay() const { return false; }

 protected:
  explicit PayloadReader(uint32_t elements) : elements_(elements) {}

 private:
  const uint32_t elements_;
};

// A worker's state of a slice is saved as the residual and at most so many further arrays.
inline constexpr size_t kMostStateArrays = 1;

// A codec: stateless, thread-safe after construction.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual CodecId id() const = 0;
  virtual absl::string_view name() const = 0;
  // Nothing is lost: no residual is needed.
  virtual bool lossless() const = 0;
  // What is left out is meant to be added to the next gradient.
  virtual bool keeps_residual() const { return !lossless(); }
  // Arrays that its encoders remember, see Encoder::SaveState; at most kMostStateArrays.
  virtual size_t state_arrays() const { return 0; }
  // What these arrays mean: a codec takes them from a checkpoint only where it says the same. 0
  // where there are none. Stored: do not change.
  virtual uint32_t memory() const { return 0; }
  virtual std::unique_ptr<Encoder> NewEncoder(const SliceShape& shape) const = 0;
  // Checks the whole payload; an error says what is wrong with it: OutOfRange for a value that is
  // not finite, InvalidArgument for lengths, indices and codes that cannot be. Needs none of the
  // encoder's options: everything is in the bytes or the slice. The codec must outlive the reader.
  virtual absl::StatusOr<std::unique_ptr<PayloadReader>> Open(ByteSpan payload,
                                                              const SliceShape& shape) const = 0;
  // As Open, of a payload that several slices of one tensor share: a reader for each, in the order
  // of the shapes. All codecs but factors have payloads of one slice alone.
  virtual absl::StatusOr<std::vector<std::unique_ptr<PayloadReader>>> OpenShared(
      ByteSpan payload, std::span<const SliceShape> shapes) const;
  // No payload for that many elements is longer.
  virtual size_t MaxPayload(uint32_t elements) const = 0;
  // As MaxPayload, of one that slices share.
  size_t MaxSharedPayload(std::span<const SliceShape> shapes) const;
};

// Which implementation of the inner loops codecs use; all write the same bytes.
enum class CodecBackend { kScalar, kSimd };

struct CodecOptions {
  CodecBackend backend = CodecBackend::kSimd;
  // That the sum of a step is made by: dgc clips each one's share.
  uint32_t workers = 1;
};

// The codec that a config asks for.
absl::StatusOr<std::unique_ptr<Codec>> MakeCodec(const CodecConfig& config,
                                                 const CodecOptions& options = {});

// The config of every codec there is, each with its defaults, in the schema's order.
std::vector<CodecConfig> DefaultCodecs();

// All codecs with default options, for decoding: indexed by CodecId.
class CodecTable {
 public:
  explicit CodecTable(const CodecOptions& options = {});
  // Null when the id is not a codec.
  const Codec* Find(CodecId id) const;

 private:
  std::vector<std::unique_ptr<Codec>> codecs_;
};

// The SIMD instruction set that CodecBackend::kSimd runs on here, as "AVX3" or "SSE4".
absl::string_view SimdTargetName();

}  // namespace psgd
