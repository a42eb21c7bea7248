// Looks for numbers that are not finite: what is left of training that diverged.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "common/bytes.h"

namespace psgd {

// Whether none of the fp32 numbers, at any address, is NaN or infinite.
bool AllFinite(ByteSpan numbers);

// The index of the first value that is NaN or infinite; nothing: there is none.
std::optional<size_t> FirstNotFinite(std::span<const float> values);

}  // namespace psgd
