#include "experiment/config/validate_compression.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compression/codec.h"
#include "compression/policy.h"

namespace psgd {
namespace {

using Problems = std::vector<std::string>;

// Calls `body` with each choice of a codec and its path.
template <typename Body>
void ForEachPush(const CompressionConfig& compression, Body body) {
  body(compression.push(), std::string("compression.push"));
  for (int i = 0; i < compression.rules_size(); ++i) {
    body(compression.rules(i).push(), absl::StrCat("compression.rules[", i, "].push"));
  }
}

// Calls `body` with each named codec and its path. For auto, calls it with each candidate.
template <typename Body>
void ForEachCodec(const CompressionConfig& compression, Body body) {
  ForEachPush(compression, [&](const CodecConfig& codec, const std::string& path) {
    if (!codec.has_auto_()) return body(codec, path);
    for (int i = 0; i < codec.auto_().codecs_size(); ++i) {
      body(codec.auto_().codecs(i), absl::StrCat(path, ".auto.codecs[", i, "]"));
    }
  });
}

// The candidates must differ, and each must be able to take over the residuals of the others.
void CheckAuto(const AutoCodec& config, const std::string& path, Problems* problems) {
  std::map<std::string, int> seen;
  for (int i = 0; i < config.codecs_size(); ++i) {
    const CodecConfig& codec = config.codecs(i);
    const std::string item = absl::StrCat(path, "[", i, "]");
    if (codec.has_dgc() || codec.has_signum()) {
      problems->push_back(absl::StrCat(
          item, ": ", codec.has_dgc() ? "dgc" : "signum",
          " applies momentum on the worker, and no other codec could go on from it: leave it out, "
          "or name it as compression.push"));
    }
    if (codec.has_factors()) {
      problems->push_back(absl::StrCat(
          item,
          ": factors come from the layer, in place of the gradient that the others are tried "
          "on: name it in compression.rules"));
    }
    const auto [same, is_new] = seen.emplace(CodecText(codec), i);
    if (!is_new) {
      problems->push_back(absl::StrCat(item, ": ", same->first, " is named twice, first as ", path,
                                       "[", same->second, "]"));
    }
  }
  if (!config.codecs().empty() && Candidates(config).size() == 1) {
    problems->push_back(
        absl::StrCat(path,
                     ": fp16 alone leaves nothing to choose: name another codec, or say "
                     "compression.push: fp16"));
  }
}

// Checks what a codec demands of its options beyond their ranges.
void CheckOptions(const CodecConfig& codec, const std::string& path, Problems* problems) {
  const absl::Status status = MakeCodec(codec).status();
  if (!status.ok()) problems->push_back(absl::StrCat(path, ": ", status.message()));
}

// Momentum in the codec and in the server's optimizer would speed up every step twice.
void CheckMomentum(const CodecConfig& codec, const std::string& path,
                   const OptimizerConfig& optimizer, Problems* problems) {
  const char* name = codec.has_dgc() ? "dgc" : codec.has_signum() ? "signum" : nullptr;
  if (name == nullptr) return;
  const double momentum = codec.has_dgc() ? codec.dgc().momentum() : codec.signum().momentum();
  const bool plain = optimizer.kind_case() == OptimizerConfig::KIND_NOT_SET ||
                     (optimizer.has_worker() && momentum == 0) ||
                     (optimizer.has_sgd() && optimizer.sgd().momentum() == 0);
  if (plain) return;
  if (optimizer.has_worker()) {
    problems->push_back(absl::StrCat(path, ": ", name,
                                     " applies momentum, and so may the worker's "
                                     "own optimizer: set ",
                                     path, ".", name, ".momentum to 0"));
    return;
  }
  problems->push_back(
      absl::StrCat(path, ": ", name,
                   " applies momentum on the worker, so the server's optimizer must be sgd "
                   "without: set optimizer.sgd.momentum to 0 and ",
                   path, ".", name, ".momentum to what it was"));
}

constexpr int64_t kBlockStep = 64;  // blocks are multiples of this

// Stochastic rounding shrinks the residual only if blocks are short enough: qsgd.h. `or_set` names
// other remedies beside the codec's own options, with ", " at its end.
void CheckContraction(int64_t bits, int64_t block, const std::string& what,
                      const std::string& or_set, Problems* problems) {
  const int64_t levels = (int64_t{1} << (bits - 1)) - 1;
  const int64_t most = levels * levels * 63 / 8 / kBlockStep * kBlockStep;
  if (block <= most) return;
  problems->push_back(absl::StrCat(
      what, " with ", bits, " bits, stochastic rounding and blocks of ", block,
      " may err by more than what it sends, and residuals would pile up: set rounding to nearest",
      most > 0 ? absl::StrCat(", ", or_set, "or blocks of at most ", most)
               : absl::StrCat(or_set.empty() ? "" : " or ", absl::StripSuffix(or_set, ", "))));
}

// The residual must be smaller than the input, or it grows without end.
void CheckContracts(const CodecConfig& codec, const std::string& path, const std::string& or_set,
                    Problems* problems) {
  if (codec.qsgd().norm() == QsgdCodec::L2) {
    problems->push_back(absl::StrCat(
        path,
        ": qsgd with norm l2 may err by more than what it sends, and residuals would pile up: set ",
        or_set, or_set.empty() ? "" : "or ", "norm to max"));
  } else if (codec.has_qsgd() && codec.qsgd().rounding() == Rounding::STOCHASTIC) {
    CheckContraction(codec.qsgd().bits(), codec.qsgd().block(), absl::StrCat(path, ": qsgd"),
                     or_set, problems);
  } else if (codec.has_int8() && codec.int8().rounding() == Rounding::STOCHASTIC) {
    CheckContraction(8, codec.int8().block(), absl::StrCat(path, ": int8"), or_set, problems);
  }
}

void CheckFeedback(const CodecConfig& codec, const std::string& path,
                   const CompressionConfig& compression, Problems* problems) {
  if (codec.has_dgc() && !compression.error_feedback()) {
    problems->push_back(absl::StrCat(
        path, ": dgc adds up what it does not send: set compression.error_feedback to true"));
  }
  if (!compression.error_feedback()) return;
  CheckContracts(codec, path, "compression.error_feedback to false, ", problems);
}

void CheckFactors(const CodecConfig& codec, const std::string& path, const NodeConfig& node,
                  Problems* problems) {
  if (!codec.has_factors() || node.reduce() != NodeConfig::NCCL) return;
  problems->push_back(absl::StrCat(path,
                                   ": factors have no sum, which is what node.reduce nccl makes of "
                                   "gradients: set node.reduce to host or none"));
}

// A pull must be able to leave something out, and the codec must be able to encode a difference.
void CheckDelta(const DeltaPull& delta, const OptimizerConfig& optimizer, Problems* problems) {
  const std::string path = "compression.pull.delta.codec";
  if (delta.codec().has_none()) {
    problems->push_back(absl::StrCat(
        path,
        " none leaves nothing out: name a lossy codec, or leave codec away to send what changed"));
  }
  if (delta.codec().has_auto_()) {
    problems->push_back(absl::StrCat(path, " auto: only pushes are measured: name a codec"));
  }
  if (delta.codec().has_dgc() || delta.codec().has_signum() || delta.codec().has_factors()) {
    problems->push_back(
        absl::StrCat(path,
                     " is of differences between weights, and dgc, signum and factors are made for "
                     "gradients: use topk, or sign"));
  }
  CheckContracts(delta.codec(), path, "", problems);
  const bool few_change = optimizer.has_adagrad() || optimizer.has_worker() ||
                          (optimizer.has_sgd() && optimizer.sgd().momentum() == 0);
  if (delta.has_codec() || few_change) return;
  problems->push_back(
      "compression.pull.delta sends the weights that changed, and this optimizer changes all at "
      "every step: use optimizer.sgd without momentum, adagrad or worker, or give "
      "compression.pull.delta a lossy codec, as {codec: {topk: {density: 0.01}}}");
}

}  // namespace

void CheckCompressionKeys(const CompressionConfig& compression, Problems* problems) {
  for (int i = 0; i < compression.rules_size(); ++i) {
    const std::string path = absl::StrCat("compression.rules[", i, "]");
    if (compression.rules(i).match().empty()) {
      problems->push_back(
          absl::StrCat(path, ".match is missing: say which parameters, as fc*.weight"));
    }
    if (!compression.rules(i).has_push()) {
      problems->push_back(absl::StrCat(path, ".push is missing: say which codec, as none"));
    }
  }
  if (compression.residual_decay() != 1 && !compression.error_feedback()) {
    problems->push_back(
        "compression.residual_decay does nothing without compression.error_feedback: set that to "
        "true, or leave it out");
  }
}

void CheckCodecs(const Config& config, Problems* problems) {
  const CompressionConfig& compression = config.compression();
  ForEachPush(compression, [&](const CodecConfig& codec, const std::string& path) {
    CheckMomentum(codec, path, config.optimizer(), problems);
    if (codec.has_auto_()) CheckAuto(codec.auto_(), path + ".auto.codecs", problems);
  });
  ForEachCodec(compression, [&](const CodecConfig& codec, const std::string& path) {
    CheckOptions(codec, path, problems);
    CheckFeedback(codec, path, compression, problems);
    CheckFactors(codec, path, config.node(), problems);
  });
  if (compression.pull().has_int8()) {
    CodecConfig int8;
    *int8.mutable_int8() = compression.pull().int8();
    CheckOptions(int8, "compression.pull.int8", problems);
  }
  if (!compression.pull().has_delta()) return;
  CheckDelta(compression.pull().delta(), config.optimizer(), problems);
  if (compression.pull().delta().codec().has_auto_()) return;  // already reported
  CheckOptions(compression.pull().delta().codec(), "compression.pull.delta.codec", problems);
}

}  // namespace psgd
