#include "bench/factors_bench.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/codec_cases.h"
#include "bench/machine_limits.h"
#include "compression/low_rank/factors_payload.h"

namespace psgd {
namespace {

constexpr size_t kSide = 4096, kBatch = 32, kWidth = 2 * kSide;
constexpr size_t kSliceRows = 256;  // slices of 1 Mi elements
constexpr size_t kDecodedAtATime = 4096;

struct FactorsCase {
  const char* name;
  ValueCoding coding;
  double error;  // upper bound for an element, which is a sum over the batch
};
// A byte errs by a unit, 1/127 of a sample's largest value (about 4); each term has two bytes.
constexpr FactorsCase kFactorsCases[] = {{"factors", ValueCoding::kFloat, 1e-4},
                                         {"factors-fp16", ValueCoding::kHalf, 0.1},
                                         {"factors-int8", ValueCoding::kByte, 8}};

// Returns rows of x, each followed by a row of dy.
std::vector<float> BatchOfFactors() {
  std::vector<float> factors = RandomGradient(kBatch * kWidth);
  for (size_t n = 0; n < kBatch; ++n) {
    for (size_t j = 0; j < kSide; ++j) {
      float& x = factors[n * kWidth + j];
      x = x < 0 ? 0 : x;
    }
  }
  return factors;
}

std::vector<SliceShape> SlicesOfLayer() {
  std::vector<SliceShape> shapes;
  for (size_t row = 0; row < kSide; row += kSliceRows) {
    SliceShape shape;
    shape.elements = kSliceRows * kSide;
    shape.tensor_rows = shape.tensor_columns = kSide;
    shape.offset = row * kSide;
    shapes.push_back(shape);
  }
  return shapes;
}

absl::Status AddProduct(ByteSpan payload, std::span<const SliceShape> shapes,
                        const CodecKernels& kernels, float scale, std::span<float> weights) {
  PSGD_ASSIGN_OR_RETURN(const auto readers, OpenFactors(payload, shapes, kernels));
  for (size_t s = 0; s < shapes.size(); ++s) {
    for (size_t done = 0; done < shapes[s].elements; done += kDecodedAtATime) {
      readers[s]->AddBlock(scale, weights.subspan(shapes[s].offset + done, kDecodedAtATime));
    }
  }
  return absl::OkStatus();
}

// Checks a few thousand elements of the product against plain loops.
bool IsProduct(std::span<const float> factors, std::span<const float> product, double error) {
  constexpr size_t kStep = 4099;
  for (size_t i = 0; i < product.size(); i += kStep) {
    double sum = 0;
    for (size_t n = 0; n < kBatch; ++n) {
      sum += static_cast<double>(factors[n * kWidth + kSide + i / kSide]) *
             factors[n * kWidth + i % kSide];
    }
    if (!(std::abs(sum - product[i]) <= error)) return false;
  }
  return true;
}

}  // namespace

std::vector<BenchRow> RunFactorsBench(CodecBackend backend, int repeats) {
  const CodecKernels& kernels = KernelsFor(backend);
  const char* twin = backend == CodecBackend::kSimd ? "/simd" : "/scalar";
  const std::vector<float> factors = BatchOfFactors();
  const std::vector<SliceShape> shapes = SlicesOfLayer();
  const double bytes = static_cast<double>(kSide * kSide * sizeof(float));
  std::vector<BenchRow> rows;
  for (const FactorsCase& tried : kFactorsCases) {
    FactorsEncoder encoder(kernels, tried.coding);
    std::vector<std::byte> payload;
    const auto encode = [&] {
      payload.clear();
      encoder.Begin(factors, kBatch, kSide, {BenchedKey(0), 1});
      return encoder.Encode(shapes, &payload);
    };
    std::vector<float> weights(kSide * kSide);
    const bool verified = encode() && AddProduct(payload, shapes, kernels, 1, weights).ok() &&
                          IsProduct(factors, weights, tried.error);
    const double limit = MeasureMemcpy();
    const auto add = [&](const char* direction, auto work) {
      rows.push_back(MeasureCodecCase(
          {absl::StrCat(tried.name, "/", direction, twin), bytes, shapes.size(), limit, verified},
          repeats, work, [&] { return payload.size(); }));
    };
    add("encode", [&] { encode(); });
    add("decode", [&] { (void)AddProduct(payload, shapes, kernels, -0.01f, weights); });
  }
  return rows;
}

}  // namespace psgd
