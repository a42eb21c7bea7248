// What proto/config.proto says about a key: its kind, its choices, its range, in words for people.
#pragma once

#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/status.h"
#include "proto/codec_config.pb.h"

namespace psgd {

// A Progress: a message in the schema, one word such as `2 epochs` in YAML.
bool IsProgress(const google::protobuf::FieldDescriptor& field);

// What such a length is where it is not given; none: it then means "never". See usual_epochs of the
// schema.
std::optional<Progress> UsualLength(const google::protobuf::FieldDescriptor& field);

// A section of keys, as against a value.
bool IsSection(const google::protobuf::FieldDescriptor& field);

std::vector<std::string> KeysOf(const google::protobuf::Descriptor& type);

// Values of an enum as YAML has them: zmq, ipc, grpc.
std::vector<std::string> ChoicesOf(const google::protobuf::EnumDescriptor& type);

// The sections of which one may be given, as none, fp16, topk; empty where there is no such choice.
std::vector<std::string> MembersOf(const google::protobuf::Descriptor& type);

// The key that a bare word in place of the section is a value for; null: there is none.
const google::protobuf::FieldDescriptor* KeyOfWord(const google::protobuf::Descriptor& type);

// A word that may stand for a number, as "unbounded" for -1.
struct NumberWord {
  std::string word;
  int64_t number = 0;
};
std::optional<NumberWord> WordOf(const google::protobuf::FieldDescriptor& field);

// A number in the unit of the field: 4096 as "4KiB".
std::string NumberInUnit(const google::protobuf::FieldDescriptor& field, double number);

// The numbers allowed: `at least 1`, `between 1 and 64`, `above 0 and at most 1`, `at least 0, or
// "unbounded"`; empty where the schema sets no bound.
std::string RangeOf(const google::protobuf::FieldDescriptor& field);

bool InRange(const google::protobuf::FieldDescriptor& field, double number);

}  // namespace psgd
