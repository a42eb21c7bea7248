// Products of matrices, by cuBLAS.
#pragma once

#include "engine/cudnn/lower.h"

namespace psgd::cudnn {

// Row-major, as it lies in memory.
struct Matrix {
  View view;
  int64_t rows, columns;
  bool transposed = false;  // enters the product so
  int64_t begin = 0;        // elements before it in the buffer
  int64_t stride = 0;       // elements from row to row; 0: as many as there are columns
};

struct ProductOptions {
  int64_t count = 1;  // of products, whose matrices lie one behind the other
  float keep = 0;     // of what `out` held before
};

// out = a b + keep out; out is fp32, or of the type of a and b. Sums are fp32.
void Multiply(const Context& c, const Matrix& a, const Matrix& b, const Matrix& out,
              const ProductOptions& options = {});

}  // namespace psgd::cudnn
