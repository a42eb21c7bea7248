// What compression.push: auto measured and chose, as files have it.
#pragma once

#include <map>
#include <string>

#include "experiment/record/records.h"
#include "proto/control.pb.h"

namespace psgd {

// What metrics.jsonl has of it, and back; what is missing is zero.
Record CodecChoicesRecord(const CodecChoices& choices);
CodecChoices CodecChoicesOf(const Record& record);

// The codec that each parameter's pushes have, by name.
std::map<std::string, std::string> ChosenCodecs(const CodecChoices& choices);

// The name of what was chosen; empty where that is none of the candidates.
std::string ChosenCodec(const CodecChoices::Tensor& tensor);

}  // namespace psgd
