// The interface of all codecs. A codec says how an update travels.
//
// Worker side: an Encoder turns the gradient of one slice (plus the residual of earlier steps) into
// payload bytes and leaves in the residual what the payload does not carry.
// Shard side: a Codec opens a payload, checking every byte against the registered slice. The
// PayloadReader then hands out values block by block, so that they go straight into the optimizer
// and no dense gradient is ever materialized. Every codec has an id in the wire's CodecId.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/bytes.h"
#include "common/philox.h"
#include "common/status.h"
#include "compression/cuda/options.h"
#include "proto/config.pb.h"
#include "proto/data.pb.h"

namespace psgd {

// What a codec knows of a slice. Matrix codecs need the slice's place in the tensor.
struct SliceShape {
  uint32_t elements = 0;
  // The tensor seen as a matrix: rows = first dimension, columns = product of the others.
  uint64_t tensor_rows = 0;
  uint64_t tensor_columns = 0;
  uint64_t offset = 0;  // of the slice's first element in the tensor
};

struct EncodeInput {
  std::span<const float> gradient;
  // Encode adds the residual to the gradient, then stores here what the payload left out. If the
  // residual is empty, the rest is dropped. Otherwise it is as long as the gradient.
  std::span<float> residual;
  // Stochastic codecs draw Philox(key, element / 4, step), word element % 4, for each element of
  // the slice, counted from 0. REQUIRES: slices and workers have different keys.
  PhiloxKey key;
  uint64_t step = 0;
};

// Encodes one slice of one worker, step after step. Encoders may keep state. Not thread-safe.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the payload to `out`.
  // REQUIRES: gradient.size() == the slice's elements; values finite. (Other values spoil the
  // residual too. A payload that cannot carry them is made so that Open refuses it.)
  virtual void Encode(const EncodeInput& input, std::vector<std::byte>* out) = 0;

  // Copies what the encoder remembers beside the residual into arrays of the slice's length. So a
  // slice that is cut anew takes its part of each array along. REQUIRES: arrays.size() ==
  // Codec::state_arrays() * the slice's elements; the arrays hold zeros.
  virtual void SaveState(std::span<float> arrays) const {}
  // Takes any finite values: after a new cut they may differ from the saved ones.
  virtual void LoadState(std::span<const float> arrays) {}
};

// One checked payload, read from front to back. Reads cannot fail: Open has checked every byte. Not
// thread-safe. The payload's bytes must outlive the reader.
class PayloadReader {
 public:
  virtual ~PayloadReader() = default;
  // Elements of the slice.
  uint32_t elements() const { return elements_; }
  // Does block[i] += scale * value[position + i], then moves on by block.size().
  // REQUIRES: block.size() <= the elements that are left.
  virtual void AddBlock(float scale, std::span<float> block) = 0;
  // An upper bound of the values' magnitudes. The call scans the payload; it is valid at any time.
  virtual float Largest() const = 0;
  // The values of a dense fp32 payload, so that a caller may skip the copy. Else empty.
  virtual std::span<const float> Direct() const { return {}; }
  // Whether the payload is sparse. If so, a caller may use NextEntries instead of AddBlock (not
  // both).
  virtual bool sparse() const { return false; }
  // Fills in the next (index, value) pairs, indices ascending. Returns their number, 0 at the end.
  virtual size_t NextEntries(std::span<uint32_t> indices, std::span<float> values) { return 0; }
  // Whether the shard must add the weight decay, because the worker could not.
  virtual bool without_decay() const { return false; }

 protected:
  explicit PayloadReader(uint32_t elements) : elements_(elements) {}

 private:
  const uint32_t elements_;
};

using StatusOrReader = absl::StatusOr<std::unique_ptr<PayloadReader>>;
using StatusOrReaders = absl::StatusOr<std::vector<std::unique_ptr<PayloadReader>>>;

struct CodecKernels;  // kernels.h

// A checkpoint holds a slice's worker state as the residual and at most this many more arrays.
inline constexpr size_t kMostStateArrays = 1;

// A codec: stateless, thread-safe after construction.
class Codec {
 public:
  virtual ~Codec() = default;
  CodecId id() const { return id_; }
  absl::string_view name() const { return name_; }
  // Whether payloads lose nothing, so that no residual is needed.
  virtual bool lossless() const { return false; }
  // Whether the next gradient should include what a payload left out.
  virtual bool keeps_residual() const { return !lossless(); }
  // Number of arrays that the encoders remember (Encoder::SaveState); at most kMostStateArrays.
  virtual size_t state_arrays() const { return 0; }
  // Identifies the meaning of these arrays, 0 if there are none. A codec loads arrays of a
  // checkpoint only if they were saved under its own memory(). Stored: do not change.
  virtual uint32_t memory() const { return 0; }
  virtual std::unique_ptr<Encoder> NewEncoder(const SliceShape& shape) const = 0;
  // Checks the whole payload. An error says what is wrong: OutOfRange for a value that is not
  // finite, InvalidArgument for impossible lengths, indices and codes. The bytes and the slice
  // suffice: Open needs none of the encoder's options. The codec must outlive the reader.
  virtual StatusOrReader Open(ByteSpan payload, const SliceShape& shape) const = 0;
  // Opens a payload that several slices of one tensor share. Returns a reader for each slice, in
  // the order of the shapes. Only factors has payloads of more than one slice.
  virtual StatusOrReaders OpenShared(ByteSpan payload, std::span<const SliceShape> shapes) const;
  // Returns the options of its twin on a device, for that slice; nothing if it has no twin.
  virtual std::optional<TwinCodec> Twin(const SliceShape& shape) const { return std::nullopt; }
  // Length of the longest payload for that many elements.
  virtual size_t MaxPayload(uint32_t elements) const = 0;
  // Length of the longest payload that these slices can share.
  size_t MaxSharedPayload(std::span<const SliceShape> shapes) const;

 protected:
  // REQUIRES: `name` is a literal; the kernels outlive the codec.
  Codec(CodecId id, absl::string_view name, const CodecKernels& kernels)
      : id_(id), name_(name), kernels_(kernels) {}

  const CodecKernels& kernels() const { return kernels_; }

 private:
  const CodecId id_;
  const absl::string_view name_;
  const CodecKernels& kernels_;
};

using StatusOrCodec = absl::StatusOr<std::unique_ptr<Codec>>;

// The implementation of the codecs' inner loops. All implementations write the same bytes.
enum class CodecBackend { kScalar, kSimd };

struct CodecOptions {
  CodecBackend backend = CodecBackend::kSimd;
  // Workers that contribute to the sum of a step: dgc clips each worker's share.
  uint32_t workers = 1;
};

// Makes the codec that a config asks for.
StatusOrCodec MakeCodec(const CodecConfig& config, const CodecOptions& options = {});

// Returns the config of every codec, with default options, in the schema's order.
std::vector<CodecConfig> DefaultCodecs();

// All codecs with default options, for decoding, indexed by CodecId.
class CodecTable {
 public:
  explicit CodecTable(const CodecOptions& options = {});
  // Returns null if no codec has this id.
  const Codec* Find(CodecId id) const;

 private:
  std::vector<std::unique_ptr<Codec>> codecs_;
};

// Returns the SIMD instruction set that CodecBackend::kSimd uses here, such as "AVX3" or "SSE4".
absl::string_view SimdTargetName();

}  // namespace psgd
