#include "engine/cudnn/kernels.h"
#include "engine/cudnn/lower.h"

namespace psgd::cudnn {
namespace {

cudaDataType_t DataType(Type type) {
  return type == Type::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

// A matrix as it lies row-major in memory.
struct Matrix {
  View view;
  int64_t rows, columns;
  bool transposed = false;  // enters the product so
};

// out = a b, all row-major. cuBLAS counts columns first: it sees every matrix transposed, and so
// computes the transposed product of the swapped factors.
void Multiply(const Context& c, const Matrix& a, const Matrix& b, const Matrix& out) {
  const auto operation = [](const Matrix& m) { return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const int64_t inner = a.transposed ? a.rows : a.columns;
  const cublasComputeType_t compute = c.options.precision == Precision::kTf32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  c.lowering.Call([=, blas = c.lowering.device()->blas()](const Buffers& buffers, const Step&) {
    const float one = 1, zero = 0;
    return CheckCall(
        cublasGemmEx_64(blas, operation(b), operation(a), out.columns, out.rows, inner, &one,
                        buffers[b.view.buffer], DataType(b.view.format.type), b.columns,
                        buffers[a.view.buffer], DataType(a.view.format.type), a.columns, &zero,
                        buffers[out.view.buffer], DataType(out.view.format.type), out.columns,
                        compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx_64");
  });
}

}  // namespace

absl::Status Lower(const Dense&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(0))[0], inputs = l.shape(c.in(0))[1];
  const int64_t outputs = l.shape(c.in(1))[0];
  const View x = l.GetUsual(c.in(0)), w = l.GetUsual(c.in(1));
  const View y = l.PutUsual(c.out(0));
  Multiply(c, {x, batch, inputs}, {w, outputs, inputs, true}, {y, batch, outputs});
  if (!c.has_in(2)) return absl::OkStatus();
  const View bias = l.Get(c.in(2), kPlainFloat);
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return AddToRows(stream, type, batch, outputs, static_cast<const float*>(b[bias.buffer]),
                     b[y.buffer]);
  });
  return absl::OkStatus();
}

absl::Status Lower(const DenseBackwardData&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(1))[0], outputs = l.shape(c.in(0))[0];
  const int64_t inputs = l.shape(c.in(0))[1];
  const View w = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1));
  Multiply(c, {dy, batch, outputs}, {w, outputs, inputs}, {l.PutUsual(c.out(0)), batch, inputs});
  return absl::OkStatus();
}

absl::Status Lower(const DenseBackwardWeights&, const Context& c) {
  Lowering& l = c.lowering;
  const int64_t batch = l.shape(c.in(0))[0], inputs = l.shape(c.in(0))[1];
  const int64_t outputs = l.shape(c.in(1))[1];
  const View x = l.GetUsual(c.in(0)), dy = l.GetUsual(c.in(1));
  // Straight to fp32: the sums are held in it anyway.
  Multiply(c, {dy, batch, outputs, true}, {x, batch, inputs},
           {l.Put(c.out(0), kPlainFloat), outputs, inputs});
  if (!c.has_out(1)) return absl::OkStatus();
  const BufferId partial = l.Temporary(ColumnPartials(batch, outputs) * sizeof(float));
  const View db = l.Put(c.out(1), kPlainFloat);
  l.CallKernel([=, stream = l.stream(), type = l.type()](const Buffers& b, const Step&) {
    return SumColumns(stream, type, batch, outputs, b[dy.buffer], static_cast<float*>(b[partial]),
                      static_cast<float*>(b[db.buffer]));
  });
  return absl::OkStatus();
}

}  // namespace psgd::cudnn
