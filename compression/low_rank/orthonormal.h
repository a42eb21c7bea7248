// Makes the columns of a thin matrix orthonormal.
#pragma once

#include <cstddef>
#include <span>

namespace psgd {

// Runs modified Gram-Schmidt in double precision over `columns` columns of a matrix that lies row
// by row. The products of row i go to lane i % 16 of a sum (lanes.h). A column becomes 0 if less
// than a millionth of it is independent of the columns before it.
void MakeOrthonormal(std::span<float> matrix, size_t columns);

}  // namespace psgd
