#include "engine/cudnn/blas.h"

#include "engine/cudnn/fused_product.h"
#include "engine/cudnn/kernels.h"

namespace psgd::cudnn {
namespace {

cudaDataType_t DataType(Type type) {
  switch (type) {
    case Type::kBfloat16:
      return CUDA_R_16BF;
    case Type::kHalf:
      return CUDA_R_16F;
    case Type::kFloat:
      break;
  }
  return CUDA_R_32F;
}

// A matrix as an argument of cuBLAS.
struct Argument {
  explicit Argument(const Matrix& m)
      : buffer(m.view.buffer),
        offset(m.begin * static_cast<int64_t>(TypeBytes(m.view.format.type))),
        type(DataType(m.view.format.type)),
        operation(m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N),
        stride(m.stride > 0 ? m.stride : m.columns),
        area(m.area > 0 ? m.area : m.rows * m.columns) {}

  void* At(const Buffers& buffers) const { return static_cast<char*>(buffers[buffer]) + offset; }

  BufferId buffer;
  int64_t offset;
  cudaDataType_t type;
  cublasOperation_t operation;
  int64_t stride;
  int64_t area;  // from a matrix to the next
};

BlasMatrix AsBlas(const Matrix& m) {
  const Argument of(m);
  return {of.type, m.columns, m.rows, of.stride, m.transposed};
}

cublasComputeType_t ComputeType(const Context& c) {
  return c.options.precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
}

absl::StatusOr<std::shared_ptr<FusedProduct>> PlanFused(const Context& c, FusedProduct::Extra extra,
                                                        const Matrix& a, const Matrix& b,
                                                        const Matrix& out) {
  return FusedProduct::Plan(*c.lowering.device(), extra, ComputeType(c), AsBlas(b), AsBlas(a),
                            AsBlas(out));
}

void CallFused(const Context& c, std::shared_ptr<FusedProduct> fused, const Matrix& a,
               const Matrix& b, const Matrix& out, BufferId added, BufferId vector) {
  c.lowering.Call([=, device = c.lowering.device(), a = Argument(a), b = Argument(b),
                   y = Argument(out)](const Buffers& buffers, const Step&) {
    return fused->Run(*device, b.At(buffers), a.At(buffers),
                      ArgumentIn<const void*>(buffers, added), y.At(buffers),
                      ArgumentIn<void*>(buffers, vector));
  });
}

}  // namespace

// cuBLAS is column-major, so it sees every matrix transposed. The code swaps the factors, and
// cuBLAS computes the transposed product.
void Multiply(const Context& c, const Matrix& a, const Matrix& b, const Matrix& out,
              const ProductOptions& options) {
  const int64_t inner = a.transposed ? a.rows : a.columns;
  const cublasComputeType_t compute = ComputeType(c);
  c.lowering.Call([=, blas = c.lowering.device()->blas(), a = Argument(a), b = Argument(b),
                   y = Argument(out), rows = out.rows,
                   columns = out.columns](const Buffers& buffers, const Step&) {
    const float scale = options.scale, keep = options.keep;
    if (options.count == 1) {
      return CheckCall(
          cublasGemmEx_64(blas, b.operation, a.operation, columns, rows, inner, &scale,
                          b.At(buffers), b.type, b.stride, a.At(buffers), a.type, a.stride, &keep,
                          y.At(buffers), y.type, y.stride, compute, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx_64");
    }
    return CheckCall(cublasGemmStridedBatchedEx_64(blas, b.operation, a.operation, columns, rows,
                                                   inner, &scale, b.At(buffers), b.type, b.stride,
                                                   b.area, a.At(buffers), a.type, a.stride, a.area,
                                                   &keep, y.At(buffers), y.type, y.stride, y.area,
                                                   options.count, compute, CUBLAS_GEMM_DEFAULT),
                     "cublasGemmStridedBatchedEx_64");
  });
}

void MultiplyAndAdd(const Context& c, const Matrix& a, const Matrix& b, const Matrix& out,
                    const Epilogue& epilogue) {
  Lowering& l = c.lowering;
  const auto [bias, added, relu] = epilogue;
  const Type type = out.view.format.type;
  const bool has_bias = bias != kNoTensor, in_place = added == out.view.buffer;
  const bool elsewhere = added != kNoBuffer && !in_place;
  const auto multiply = [&] { Multiply(c, a, b, out, {.keep = in_place ? 1.0f : 0.0f}); };
  if (!has_bias && !elsewhere) return multiply();
  using Extra = FusedProduct::Extra;
  const Extra with_bias = relu ? Extra::kAddVectorRelu : Extra::kAddVector;
  auto fused = PlanFused(c, has_bias ? with_bias : Extra::kNothing, a, b, out);
  // The search for an algorithm knows no addresses.
  const bool in_place_only = elsewhere && fused.ok() && !(*fused)->AddsElsewhere();
  if (absl::IsUnimplemented(fused.status()) || in_place_only) {
    multiply();
    if (has_bias) AddBiasToRows(c, out.rows, out.columns, bias, relu, out.view);
    if (elsewhere) l.Run(AddPair, type, out.rows * out.columns, out.view, added, out.view);
    return;
  }
  if (!fused.ok()) return l.Refuse(fused.status());
  const BufferId vector = has_bias ? l.Get(bias, {Layout::kPlain, type}).buffer : kNoBuffer;
  CallFused(c, *std::move(fused), a, b, out, added, vector);
}

void MultiplyAndSum(const Context& c, const Matrix& a, const Matrix& b, const Matrix& out,
                    TensorId sums) {
  auto fused = PlanFused(c, FusedProduct::Extra::kSumSecond, a, b, out);
  if (absl::IsUnimplemented(fused.status())) {
    Multiply(c, a, b, out);
    PutColumnSums(c, a.rows, a.columns, a.view.buffer, sums);
    return;
  }
  if (!fused.ok()) return c.lowering.Refuse(fused.status());
  const View vector = c.lowering.Put(sums, {Layout::kPlain, out.view.format.type});
  CallFused(c, *std::move(fused), a, b, out, kNoBuffer, vector.buffer);
}

}  // namespace psgd::cudnn
