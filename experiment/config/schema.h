// What proto/config.proto says about a key (its kind, choices and range), in words for people.
#pragma once

#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/codec_config.pb.h"

namespace psgd {

// True for a Progress: a message in the schema, but one word such as `2 epochs` in YAML.
bool IsProgress(const google::protobuf::FieldDescriptor& field);

// The default of such a length (usual_epochs of the schema). Nothing: an unset length means
// "never".
std::optional<Progress> UsualLength(const google::protobuf::FieldDescriptor& field);

// True for a number without a default: unset it means "as elsewhere".
bool MayStayUnset(const google::protobuf::FieldDescriptor& field);

// True for a section of keys, false for a value.
bool IsSection(const google::protobuf::FieldDescriptor& field);

std::vector<std::string> KeysOf(const google::protobuf::Descriptor& type);

// The values of an enum as YAML writes them: zmq, ipc, grpc.
std::vector<std::string> ChoicesOf(const google::protobuf::EnumDescriptor& type);

// The sections of a choice, such as none, fp16, topk. Empty if the message has no choice.
std::vector<std::string> MembersOf(const google::protobuf::Descriptor& type);

// The key that takes a bare word written in place of the section. Null: no key does.
const google::protobuf::FieldDescriptor* KeyOfWord(const google::protobuf::Descriptor& type);

// A word that stands for a number, such as "unbounded" for -1.
struct NumberWord {
  std::string word;
  int64_t number = 0;
};
std::optional<NumberWord> WordOf(const google::protobuf::FieldDescriptor& field);

// A number in the unit of the field: 4096 is "4KiB".
std::string NumberInUnit(const google::protobuf::FieldDescriptor& field, double number);

// The allowed numbers: `at least 1`, `1 to 64`, `above 0 and at most 1`, `at least 0, or
// "unbounded"`. Empty if the schema sets no bound.
std::string RangeOf(const google::protobuf::FieldDescriptor& field);

bool InRange(const google::protobuf::FieldDescriptor& field, double number);

// Whether a single name may stand for the list with only that name. In a config it may. In a
// sweep's command it may not, because the words of a command are a list.
bool IsListOfNames(const google::protobuf::FieldDescriptor& field);

}  // namespace psgd
