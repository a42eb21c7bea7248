// Makes the columns of a thin matrix orthonormal.
#pragma once

#include <cstddef>
#include <span>

namespace psgd {

// Modified Gram-Schmidt, in double precision, over `columns` columns of a matrix that lies row by
// row; the products of row i go to lane i % 16 of a sum (lanes.h). A column of which less than a
// millionth is left of what depends on no other becomes 0.
void MakeOrthonormal(std::span<float> matrix, size_t columns);

}  // namespace psgd
