// Products of matrices with cuBLAS.
#pragma once

#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// A row-major matrix in memory.
struct Matrix {
  View view;
  int64_t rows, columns;
  bool transposed = false;  // the product uses the transpose
  int64_t begin = 0;        // elements before the matrix in the buffer
  int64_t stride = 0;       // elements from row to row; 0: the number of columns
  int64_t area = 0;         // elements from a matrix to the next; 0: those of the matrix
};

struct ProductOptions {
  int64_t count = 1;  // products; their matrices lie one behind the other
  float scale = 1;
  float keep = 0;  // factor of the old values of `out`
};

// out = scale a b + keep out; `out` is fp32 or of the type of a and b. Sums are fp32.
void Multiply(const Context& c, const Matrix& a, const Matrix& b, const Matrix& out,
              const ProductOptions& options = {});
struct Epilogue {
  TensorId bias = kNoTensor;   // added to each row; a fused product first rounds it to `out`'s type
  BufferId added = kNoBuffer;  // a matrix of the shape and type of `out`; may be `out` itself
  bool relu = false;  // then sets what is below zero to zero. REQUIRES: a bias, and no `added`
};
// out = relu(a b + bias + added), as far as they are given
void MultiplyAndAdd(const Context& c, const Matrix& a, const Matrix& b, const Matrix& out,
                    const Epilogue& epilogue);
// out = a b, sums = the sum of each row of a
void MultiplyAndSum(const Context& c, const Matrix& a, const Matrix& b, const Matrix& out,
                    TensorId sums);

}  // namespace psgd::cudnn
