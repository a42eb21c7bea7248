// What compression.push: auto measured and chose, in the form of files.
#pragma once

#include <map>
#include <string>

#include "experiment/record/records.h"
#include "proto/control.pb.h"

namespace psgd {

// Converts to the record in metrics.jsonl, and back. Missing numbers become zero.
Record CodecChoicesRecord(const CodecChoices& choices);
CodecChoices CodecChoicesOf(const Record& record);

// The push codec of each parameter, by parameter name.
std::map<std::string, std::string> ChosenCodecs(const CodecChoices& choices);

// The name of the chosen codec; empty if no candidate matches.
std::string ChosenCodec(const CodecChoices::Tensor& tensor);

}  // namespace psgd
