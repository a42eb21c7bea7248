// Checks that several codecs share. `codec` is the name for messages.
#pragma once

#include "absl/strings/string_view.h"
#include "common/bytes.h"
#include "common/status.h"

namespace psgd {

absl::Status CheckLength(absl::string_view codec, ByteSpan payload, size_t elements,
                         size_t expected);
// The error of a payload whose values are not all finite.
absl::Status NotFinite(absl::string_view codec);
// Checks the value that all elements have, but for their signs.
absl::Status CheckMagnitude(absl::string_view codec, float value);
// Checks one bit an element, as sign_bits.h says. REQUIRES: the length is right.
absl::Status CheckSigns(absl::string_view codec, ByteSpan bits, size_t elements);

// Checks an option: the share of elements that a codec sends.
absl::Status CheckDensity(absl::string_view codec, double density);

}  // namespace psgd
