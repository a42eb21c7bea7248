// Error feedback: what a codec leaves out of one step is added to the next.
// Seide et al., Interspeech 2014; Karimireddy, Rebjock, Stich, Jaggi: "Error feedback fixes SignSGD
// and other gradient compression schemes", ICML 2019.
//
// Step:  corrected = gradient + decay * residual;  payload = Encode(corrected);
//        residual = corrected - Decode(payload)
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compression/kernels.h"

namespace psgd {

struct ErrorFeedbackOptions {
  // If false, what a codec leaves out is dropped.
  bool accumulate = true;
  // Share of the residual that a step keeps, in (0, 1]. At 1 nothing is lost: all decoded payloads
  // plus the residual sum to all gradients.
  float decay = 1;
  CodecBackend backend = CodecBackend::kSimd;
};

// Wraps the encoder of one slice and owns its residual. Not thread-safe.
class ErrorFeedback {
 public:
  // `codec` need not outlive this.
  ErrorFeedback(const Codec& codec, const SliceShape& shape,
                const ErrorFeedbackOptions& options = {});

  // Appends the payload of gradient + residual to `out`. Key and step: see EncodeInput.
  // REQUIRES: as Encoder::Encode.
  void Encode(std::span<const float> gradient, PhiloxKey key, uint64_t step,
              std::vector<std::byte>* out);

  // Goes on with another codec. The residual stays; the encoder's state does not.
  void Use(const Codec& codec);

  // The sum of what was left out so far. Empty if nothing is kept: with accumulate off, or with a
  // lossless codec, which sends another codec's residual with its first payload.
  std::span<const float> residual() const { return residual_; }
  double SquaredNorm() const;
  // REQUIRES: values.size() == residual().size().
  void SetResidual(std::span<const float> values);
  bool takes_residual() const { return lossless_ || !residual_.empty(); }

  // State for a checkpoint: the residual (zeros if none is kept), then the arrays that the encoder
  // remembers, each as long as the slice. Empty if there is neither.
  std::vector<float> CopyState() const;
  // Loads state of a checkpoint: as many arrays as both sides have, so that a run may go on with
  // another codec. A codec that keeps no residual takes one only if it is lossless; others drop it
  // (see takes_residual). REQUIRES: whole arrays; the arrays after the residual come from a codec
  // with the same memory().
  void LoadState(std::span<const float> arrays);

 private:
  const ErrorFeedbackOptions options_;
  const SliceShape shape_;
  const CodecKernels& kernels_;
  size_t state_arrays_ = 0;  // of the encoder
  bool lossless_ = false;    // of the codec
  std::unique_ptr<Encoder> encoder_;
  std::vector<float> residual_;
  bool owed_ = false;  // residual_ came from a checkpoint, and goes with the next payload
};

}  // namespace psgd
