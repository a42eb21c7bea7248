// What other systems call our keys.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/config.pb.h"

namespace psgd {

// The optimizer that a config chooses, as "adam". Empty: none.
std::string OptimizerOf(const Config& config);

// A hint for a name that other systems use, given in `section` ("" for the whole config): "; psgd
// calls it data.batch", or an option of a program. Empty: the name is not known, or means something
// else in this section. `optimizer`: as OptimizerOf returns it.
std::string HintForOtherName(absl::string_view name, absl::string_view section,
                             absl::string_view optimizer);

// A hint for a value that other systems use: "; psgd calls it table" for csv. Empty: it is not
// known, or not what one of `choices` means.
std::string HintForOtherValue(absl::string_view value, const std::vector<std::string>& choices);

// A hint for an option that no program has, because it is a key of the config: "; say --set
// train.epochs=3" for --epochs 3. Empty: no such key is known.
std::string HintForOption(const std::string& option, const std::string& value,
                          absl::string_view optimizer);

}  // namespace psgd
