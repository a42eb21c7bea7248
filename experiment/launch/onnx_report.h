// Text of what an ONNX file needs, for ps-ctl onnx check.
#pragma once

#include <string>

#include "common/status.h"
#include "engine/onnx/check.h"

namespace psgd {

// Reads the --shape of ps-ctl onnx check: "3,224,224" for images, "128" for tokens; empty: none.
absl::StatusOr<SampleShape> ParseSampleShape(const std::string& text);

// A table of ops and the problems, or JSON.
std::string OnnxCheckText(const std::string& path, const OnnxCheck& check, bool json);

// Says that the file looks like an export in evaluation mode, which folds batch norm into
// convolutions and leaves dropout out. Empty: it does not look so.
std::string EvaluationNote(const OnnxCheck& check);

// FAILED_PRECONDITION if there are problems.
absl::Status OnnxCheckStatus(const std::string& path, const OnnxCheck& check);

}  // namespace psgd
